/**
 * Converts errors to plain records and back. The record has the form of the `serialize-error` package, which DBOS
 * stores: name, message and stack first, then code, cause, errors and the own enumerable properties of the error.
 *
 * - An error of a built-in class, HoldfastError or FatalError is read as an instance of that class.
 * - An error of a registered class is read as an instance of that class. `holdfast_class` in the record names it.
 * - Any other error is read as an Error with the same name. If its class sets no name, the name of the class is stored.
 *
 * Code that may see an error after a recovery should recognize the error by name or code.
 */
import { FatalError, HoldfastError, isError } from '../model/errors.js';
import { classNamed, classWithPrototype, isBuiltIn } from './classes.js';
import { textProblem } from './refusal.js';

export type ErrorRecord = Record<string, unknown> & { name: string; message: string; stack: string };

/** The key for the name of the registered class in an error record. */
export const classKey = 'holdfast_class';

/** The key for the names of properties that are not stored in an error record. */
export const omittedKey = 'holdfast_omitted';

const builtIn: ReadonlyMap<string, new (message: string) => Error> = new Map(
  [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError].map((Class) => [Class.name, Class]),
);

/**
 * Returns one level of an error record: cause, errors and properties are the values themselves. Pass a `read` that
 * catches errors if reading a property may throw.
 */
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
  // The code is also read from the prototype, where a DOMException has it.
  const code = read('code');
  if (typeof code === 'string' || typeof code === 'number') fields.code = code;
  if (Object.hasOwn(error, 'cause')) fields.cause = read('cause');
  // An AggregateError of another realm is recognized by name. Node throws one when every address of a host fails.
  const collects = error instanceof AggregateError || (name === 'AggregateError' && 'errors' in error);
  if (collects) fields.errors = read('errors');
  for (const key of Object.keys(error)) if (!Object.hasOwn(fields, key)) fields[key] = read(key);
  return fields;
}

/**
 * Returns the name of an error. If its class sets no name, so that it would have the name of a built-in class such as
 * "Error", returns the name of its class. The record does not store the class, so `CardDeclined` would be lost.
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
 * Returns true if a stored value is the record of an Error. A record that Holdfast or a DBOS SDK wrote always has these
 * three texts. A thrown plain object has all three only if it is meant as an Error.
 */
export function isErrorRecord(value: unknown): value is ErrorRecord {
  if (typeof value !== 'object' || value === null || isError(value)) return false;
  const { name, message, stack } = value as Partial<ErrorRecord>;
  return typeof name === 'string' && typeof message === 'string' && typeof stack === 'string';
}

/** Turns an error record (see stored-errors.ts) into an error. Any other value is returned as it is. */
export function toThrown(stored: unknown): unknown {
  if (!isErrorRecord(stored)) return stored;
  const fields: Record<string, unknown> = { ...stored };
  if (isErrorRecord(fields.cause)) fields.cause = toThrown(fields.cause);
  if (Array.isArray(fields.errors) && stored.name === 'AggregateError') {
    fields.errors = fields.errors.map(toThrown);
  }
  const error = openError(fields);
  fillError(error, fields);
  return error;
}

/** Returns the error with name and message only. Other objects can refer to it before `fillError` adds its fields. */
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
  // Without this line the error would have the stack of the code that reads it.
  if (typeof fields.stack !== 'string') hide(error, 'stack', `${error.name}: ${error.message}`);
}

function newError(name: string, message: string, fields: Readonly<Record<string, unknown>>): Error {
  const className = fields[classKey];
  const registered = typeof className === 'string' ? classNamed(className) : undefined;
  // The constructor of the class is not called, because its arguments are unknown. `new Error` makes the object a
  // native error for debuggers and loggers.
  if (registered?.isError) return Object.setPrototypeOf(new Error(message), registered.prototype) as Error;
  if (name === 'AggregateError') return new AggregateError([], message);
  if (name === 'FatalError' && fields.code === 'FATAL') return new FatalError(message);
  if (name === 'HoldfastError' && typeof fields.code === 'string') {
    // The cast is needed because the code may come from a newer release. `fillError` adds the details.
    return new HoldfastError(fields.code as 'STORAGE_REFUSED', message);
  }
  return new (builtIn.get(name) ?? Error)(message);
}

function hide(error: Error, key: string, value: unknown): void {
  Object.defineProperty(error, key, { value, enumerable: false, writable: true, configurable: true });
}
