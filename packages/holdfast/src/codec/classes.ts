/**
 * The user's own classes. An instance of an unregistered class is refused when it is stored. Storing its fields and
 * reading them as a plain object would only move the failure to the first method call after a recovery.
 *
 * The registry belongs to the process, like the classes themselves, and not to an app. A module that is evaluated
 * twice (by two bundles, or by a hot reload) makes two classes of one source text. Instances of both classes can be
 * stored. A stored instance is read as an instance of the first class, because running workflows refer to its code.
 */
import { HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import { checkKeep, type KeepOption } from './keep.js';

/** Any class, including a class with a private constructor. */
export interface ClassOf<T> {
  readonly name: string;
  readonly prototype: T;
}

export interface ClassOptions<T, Stored> {
  /**
   * The name of the class in stored values. Default: the name of the class. Set a name if a minifier renames classes.
   */
  readonly name?: string;
  /** Returns the value that is stored for an instance. Default: the own enumerable fields of the instance. */
  readonly to?: (instance: T) => Stored;
  /**
   * Makes an instance from the stored value. Default: an object with the prototype of the class and the stored
   * fields; no constructor runs. Also called when an instance is stored, so that an instance that cannot be read is
   * refused then.
   */
  readonly from?: (stored: Stored) => T;
  /**
   * For an Error class: the object properties to store, beside the `keep` of `launch({ errors })`. A list of names or
   * of paths such as `response.data`, or `'all'`.
   */
  readonly keep?: KeepOption;
}

export interface RegisteredClass {
  readonly name: string;
  readonly prototype: object;
  /** Error classes are stored as error records (see error-record.ts) instead of field by field. */
  readonly isError: boolean;
  readonly to: ((instance: unknown) => unknown) | undefined;
  readonly from: ((stored: unknown) => unknown) | undefined;
  readonly keep: KeepOption | undefined;
  /** The code of the class. It tells a copy of the class from another class of the same name. */
  readonly source: string;
}

const byName = processWide('classesByName', () => new Map<string, RegisteredClass>());
const byPrototype = processWide('classesByPrototype', () => new WeakMap<object, RegisteredClass>());

/** The names of built-in classes in stored values. */
const reserved: readonly string[] = ['Buffer', 'ArrayBuffer', 'DataView'];

/**
 * Registers a class, so that its instances can be stored and are read as instances. Call it where the class is
 * defined, in every process that reads or writes instances. A class with private (`#`) fields needs `to` and `from`,
 * because only its own code can read these fields. An Error class needs neither.
 *
 * @example
 * ```ts
 * class Money {
 *   #cents: bigint;
 *   constructor(cents: bigint) { this.#cents = cents; }
 *   get cents() { return this.#cents; }
 * }
 * registerClass(Money, { to: (money) => money.cents, from: (cents) => new Money(cents) });
 * ```
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
    throw wrongOption(name, 'give both "to" and "from", or neither: "from" reverses "to"');
  }
  if (isError && to !== undefined) {
    throw wrongOption(name, 'leave out "to" and "from": Holdfast itself stores message, cause and fields of an Error');
  }
  checkKeep(`registerClass(${name})`, 'keep', keep);
  if (keep !== undefined && !isError) {
    throw wrongOption(name, 'leave out "keep", which is for Error classes only. For other classes use "to" and "from"');
  }
  if (isBuiltIn(Class)) throw wrongOption(name, 'register only your own classes: this class is built in');
  if (to === undefined && !isError && hidesItsState(Class.prototype as object)) {
    throw wrongOption(name, 'give "to" and "from": the class extends a built-in class whose content is not in fields');
  }
}

function wrongOption(name: string, advice: string): HoldfastError {
  return new HoldfastError('INVALID_OPTION', `registerClass(${name}): ${advice}.`, { details: { name } });
}

function sourceOf(code: unknown): string {
  return typeof code === 'function' ? Function.prototype.toString.call(code) : '';
}

function checkUnclaimed(name: string, prototype: object, source: string): void {
  if (reserved.includes(name)) {
    throw new HoldfastError(
      'INVALID_NAME',
      `The class name "${name}" belongs to a built-in class. Choose another name: registerClass(Class, { name }).`,
      { details: { name } },
    );
  }
  const existing = byName.get(name);
  if (existing !== undefined && existing.prototype !== prototype && existing.source !== source) {
    throw new HoldfastError(
      'INVALID_NAME',
      `Two classes have the name "${name}", so a stored instance could belong to either. Give one of them another ` +
        'name: registerClass(Class, { name }). If you edited one class while the process ran, restart the process.',
      { details: { name } },
    );
  }
  const earlier = byPrototype.get(prototype);
  if (earlier !== undefined && earlier.name !== name) {
    throw new HoldfastError(
      'INVALID_NAME',
      `The class "${earlier.name}" is already registered and cannot also have the name "${name}". Register it once.`,
      { details: { name, registeredAs: earlier.name } },
    );
  }
}

/**
 * Returns true if the class extends a built-in class whose content is in internal slots (Map, Date, Promise, ...).
 */
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
  return isPlatformClass(Class) || /\{\s*\[native code\]\s*\}\s*$/.test(Function.prototype.toString.call(Class));
}

/**
 * Returns true for Response, AbortSignal and other classes of Node that are written in JavaScript. A global that a
 * program adds itself is enumerable; theirs are not.
 */
function isPlatformClass(Class: { readonly name: string }): boolean {
  const found = Object.getOwnPropertyDescriptor(globalThis, Class.name);
  return found !== undefined && !found.enumerable && (found.value ?? found.get?.call(globalThis)) === Class;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
