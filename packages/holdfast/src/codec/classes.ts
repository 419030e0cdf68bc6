/**
 * The user's own classes. An instance of a class that is not known here is refused when it is stored: writing its
 * fields and giving back a plain object would only move the failure to the first method call after a recovery.
 *
 * The register belongs to the process, like the classes themselves; it is not part of any app. A module that is
 * evaluated twice (by two bundles, or by a hot reload) makes two classes of one source text: instances of either can be stored, and
 * what is read is of the first, whose code the running workflows refer to.
 */
import { HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import { checkKeep, type KeepOption } from './keep.js';

/** Any class, also one whose constructor is private. */
export interface ClassOf<T> {
  readonly name: string;
  readonly prototype: T;
}

export interface ClassOptions<T, Stored> {
  /** What rows call the class. The class's own name unless given; give one where a minifier renames classes. */
  readonly name?: string;
  /** What to store of an instance: any value that can be stored. Without it: the own enumerable fields. */
  readonly to?: (instance: T) => Stored;
  /**
   * The instance again. Without it: an object with the class's prototype and the fields; no constructor runs. Called when
   * an instance is stored, too: what cannot be read is refused there.
   */
  readonly from?: (stored: Stored) => T;
  /**
   * Of an Error class: which of its properties are stored although they are objects, beside those of `launch({ errors })`: their
   * names, or paths such as `response.data`; or `'all'`.
   */
  readonly keep?: KeepOption;
}

export interface RegisteredClass {
  readonly name: string;
  readonly prototype: object;
  /** Error classes are stored as error records (see error-record.ts), not field by field. */
  readonly isError: boolean;
  readonly to: ((instance: unknown) => unknown) | undefined;
  readonly from: ((stored: unknown) => unknown) | undefined;
  readonly keep: KeepOption | undefined;
  /** Its code, by which a copy of it is told from another class of the name. */
  readonly source: string;
}

const byName = processWide('classesByName', () => new Map<string, RegisteredClass>());
const byPrototype = processWide('classesByPrototype', () => new WeakMap<object, RegisteredClass>());

/** Names that rows use for the recipes of built-in classes. */
const reserved: readonly string[] = ['Buffer', 'ArrayBuffer', 'DataView'];

/**
 * Lets instances of a class be stored and come back as instances. Call it where the class is defined, in every
 * process that reads or writes them. A class with private (`#`) fields needs `to` and `from`: nothing else can see
 * those. An Error class needs neither.
 */
export function registerClass<T extends object, Stored = unknown>(
  Class: ClassOf<T>,
  options: ClassOptions<T, Stored> = {},
): void {
  const given: unknown = Class;
  if (typeof given !== 'function' || !isObject(given.prototype)) {
    throw invalidOption('registerClass', 'Class', given, 'a class');
  }
  checkKnownOptions('registerClass', options, ['name', 'to', 'from', 'keep']);
  const name = checkName('registerClass: the name of the class', options.name ?? Class.name);
  const prototype: object = Class.prototype;
  const isError = prototype instanceof Error;
  checkConversions(Class, name, isError, options);
  const source = [Class, options.to, options.from].map(sourceOf).join('\0');
  checkUnclaimed(name, prototype, source);
  const entry: RegisteredClass = {
    name,
    prototype,
    isError,
    to: options.to as RegisteredClass['to'],
    from: options.from as RegisteredClass['from'],
    keep: options.keep,
    source,
  };
  if ((byName.get(name)?.prototype ?? prototype) === prototype) byName.set(name, entry);
  byPrototype.set(prototype, entry);
}

export function classNamed(name: string): RegisteredClass | undefined {
  return byName.get(name);
}

export function classWithPrototype(prototype: object): RegisteredClass | undefined {
  return byPrototype.get(prototype);
}

function checkConversions(Class: ClassOf<unknown>, name: string, isError: boolean, options: object): void {
  const { to, from, keep } = options as { to?: unknown; from?: unknown; keep?: unknown };
  if (to !== undefined && typeof to !== 'function')
    throw invalidOption(`registerClass(${name})`, 'to', to, 'a function');
  if (from !== undefined && typeof from !== 'function') {
    throw invalidOption(`registerClass(${name})`, 'from', from, 'a function');
  }
  if ((to === undefined) !== (from === undefined)) {
    throw wrongOption(name, 'give both "to" and "from", or neither: one undoes the other');
  }
  if (isError && to !== undefined) {
    throw wrongOption(name, 'leave out "to" and "from": an Error class keeps its message, cause and fields by itself');
  }
  checkKeep(`registerClass(${name})`, 'keep', keep);
  if (keep !== undefined && !isError) {
    throw wrongOption(name, 'leave out "keep", which is for Error classes: "to" says what is stored of others');
  }
  if (isBuiltIn(Class)) throw wrongOption(name, 'register only your own classes: this one is built in');
  if (to === undefined && !isError && hidesItsState(Class.prototype as object)) {
    throw wrongOption(
      name,
      'give "to" and "from": the class extends a built-in one whose content is not in its fields',
    );
  }
}

function wrongOption(name: string, advice: string): HoldfastError {
  return new HoldfastError('INVALID_OPTION', `registerClass(${name}): ${advice}.`, { details: { name } });
}

function sourceOf(code: unknown): string {
  return typeof code === 'function' ? Function.prototype.toString.call(code) : '';
}

function checkUnclaimed(name: string, prototype: object, source: string): void {
  const advice = 'Give one of them another name: registerClass(Class, { name }).';
  if (reserved.includes(name)) {
    throw new HoldfastError('INVALID_NAME', `The class name "${name}" is taken by the built-in class. ${advice}`, {
      details: { name },
    });
  }
  const holder = byName.get(name);
  if (holder !== undefined && holder.prototype !== prototype && holder.source !== source) {
    throw new HoldfastError(
      'INVALID_NAME',
      `Two classes want the name "${name}", so a stored value could not tell them apart. ${advice} ` +
        'If they are one class that was edited, restart the process.',
      { details: { name } },
    );
  }
  const earlier = byPrototype.get(prototype);
  if (earlier !== undefined && earlier.name !== name) {
    throw new HoldfastError(
      'INVALID_NAME',
      `The class "${earlier.name}" is already registered and cannot be "${name}" as well. Register it once.`,
      { details: { name, registeredAs: earlier.name } },
    );
  }
}

/** Whether instances carry their content in internal slots of a built-in class (Map, Date, Promise, ...). */
function hidesItsState(prototype: object): boolean {
  let parent: unknown = Object.getPrototypeOf(prototype);
  while (isObject(parent) && parent !== Object.prototype) {
    if (isBuiltIn(parent.constructor)) return true;
    parent = Object.getPrototypeOf(parent);
  }
  return false;
}

export function isBuiltIn(Class: unknown): boolean {
  if (typeof Class !== 'function') return false;
  return isOfPlatform(Class) || /\{\s*\[native code\]\s*\}\s*$/.test(Function.prototype.toString.call(Class));
}

/** Response, AbortSignal and others that Node has written in JavaScript. A global that a program makes itself is enumerable. */
function isOfPlatform(Class: { readonly name: string }): boolean {
  const found = Object.getOwnPropertyDescriptor(globalThis, Class.name);
  return found !== undefined && !found.enumerable && (found.value ?? found.get?.call(globalThis)) === Class;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
