/**
 * Errors as plain records and back. The record is that of the `serialize-error` package, which DBOS stores: name,
 * message and stack first, then code, cause, errors and the error's own enumerable properties.
 *
 *   An error of a built-in class, HoldfastError or FatalError comes back as an instance of that class; one of a
 *   registered class as an instance of it (`holdfast_class` in the record says so); any other as an Error with the
 *   same name, which is that of its class if the class does not set one. Code that may see an error after a recovery should tell it by name or code.
 */
import { FatalError, HoldfastError, isError } from '../model/errors.js';
import { classNamed, classWithPrototype, isBuiltIn } from './classes.js';
import { textProblem } from './refusal.js';

export type ErrorRecord = Record<string, unknown> & { name: string; message: string; stack: string };

/** In the record of an error: the name of its registered class. */
export const classKey = 'holdfast_class';

/** In the record of an error: the names of its properties that are not stored. */
export const omittedKey = 'holdfast_omitted';

const builtIn: ReadonlyMap<string, new (message: string) => Error> = new Map(
  [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError].map((Class) => [Class.name, Class]),
);

/** One level: cause, errors and properties are the values themselves. `read` reads a property, for one that may throw. */
export function errorFields(error: Error, read = (key: string): unknown => Reflect.get(error, key)): ErrorRecord {
  const text = (key: string, otherwise: string): string => {
    const value = read(key);
    return typeof value === 'string' ? value : otherwise;
  };
  const name = classNameOr(error, text('name', 'Error'));
  const message = text('message', '');
  const fields: ErrorRecord = { name, message, stack: text('stack', `${name}: ${message}`) };
  const registered = classWithPrototype(Object.getPrototypeOf(error) as object);
  if (registered !== undefined) fields[classKey] = registered.name;
  // Read through the prototype: a DOMException has its code there.
  const code = read('code');
  if (typeof code === 'string' || typeof code === 'number') fields.code = code;
  if (Object.hasOwn(error, 'cause')) fields.cause = read('cause');
  // By its name in another realm: such is Node's own of a connection that failed at each address of a host.
  const collects = error instanceof AggregateError || (name === 'AggregateError' && 'errors' in error);
  if (collects) fields.errors = read('errors');
  for (const key of Object.keys(error)) if (!Object.hasOwn(fields, key)) fields[key] = read(key);
  return fields;
}

/**
 * The name of an error; or that of its class, where the class gives it none and it would go by "Error" or another name of
 * a built-in class. The record does not keep the class itself, and `CardDeclined` would be one `Error` among all others.
 */
function classNameOr(error: Error, name: string): string {
  if (Object.hasOwn(error, 'name')) return name;
  const prototype = Object.getPrototypeOf(error) as object | null;
  let namer = prototype;
  while (namer !== null && !Object.hasOwn(namer, 'name')) namer = Object.getPrototypeOf(namer) as object | null;
  if (namer === null || namer === prototype || !isBuiltIn(namer.constructor)) return name;
  const className: unknown = prototype?.constructor.name;
  return typeof className === 'string' && className !== '' && textProblem(className) === undefined ? className : name;
}

/**
 * Whether something that was thrown and stored was an Error. One that we or a DBOS SDK stored always has these three
 * texts; a plain object that was thrown has all three only if it means to be an Error.
 */
export function isErrorRecord(value: unknown): value is ErrorRecord {
  if (typeof value !== 'object' || value === null || isError(value)) return false;
  const { name, message, stack } = value as Partial<ErrorRecord>;
  return typeof name === 'string' && typeof message === 'string' && typeof stack === 'string';
}

/** What was thrown, from what stored-errors.ts made of it; anything but an error record is itself what was thrown. */
export function thrownFrom(stored: unknown): unknown {
  if (!isErrorRecord(stored)) return stored;
  const fields: Record<string, unknown> = { ...stored };
  if (isErrorRecord(fields.cause)) fields.cause = thrownFrom(fields.cause);
  if (Array.isArray(fields.errors) && stored.name === 'AggregateError') {
    fields.errors = fields.errors.map(thrownFrom);
  }
  const error = openError(fields);
  fillError(error, fields);
  return error;
}

/** The error, with nothing but name and message: references to it can be given out before its fields are there. */
export function openError(fields: Readonly<Record<string, unknown>>): Error {
  const name = typeof fields.name === 'string' ? fields.name : 'Error';
  const message = typeof fields.message === 'string' ? fields.message : '';
  const error = newError(name, message, fields);
  if (error.name !== name) hide(error, 'name', name);
  return error;
}

export function fillError(error: Error, fields: Readonly<Record<string, unknown>>): void {
  for (const [key, value] of Object.entries(fields)) {
    if (key === 'name' || key === 'message' || key === classKey || key === '__proto__') continue;
    const hidden = key === 'stack' || key === 'cause' || (key === 'errors' && error instanceof AggregateError);
    if (hidden) hide(error, key, value);
    else Object.defineProperty(error, key, { value, enumerable: true, writable: true, configurable: true });
  }
  // Otherwise the stack would be that of the reader.
  if (typeof fields.stack !== 'string') hide(error, 'stack', `${error.name}: ${error.message}`);
}

function newError(name: string, message: string, fields: Readonly<Record<string, unknown>>): Error {
  const className = fields[classKey];
  const registered = typeof className === 'string' ? classNamed(className) : undefined;
  // Not by its constructor, whose arguments we do not know, but still a native error to debuggers and loggers.
  if (registered?.isError) return Object.setPrototypeOf(new Error(message), registered.prototype) as Error;
  if (name === 'AggregateError') return new AggregateError([], message);
  if (name === 'FatalError' && fields.code === 'FATAL') return new FatalError(message);
  if (name === 'HoldfastError' && typeof fields.code === 'string') {
    // Its details are among the fields, and its code may be that of a newer release.
    return new HoldfastError(fields.code as 'STORAGE_REFUSED', message);
  }
  return new (builtIn.get(name) ?? Error)(message);
}

function hide(error: Error, key: string, value: unknown): void {
  Object.defineProperty(error, key, { value, enumerable: false, writable: true, configurable: true });
}
