/**
 * The current place in a value, and the typed error that names it: `Input of workflow "checkout" cannot be stored:
 * args[0].items[2].callback is a function. …`. Both formats walk a value with a {@link ValuePath} and refuse values
 * through it, so that all refusals have the same form.
 */

import { describeError, HoldfastError, isHoldfastError } from '../model/errors.js';
import { extraProperty } from './arrays.js';

/** The start of a path: the arguments of a call, or any other value. */
export type Root = 'args' | 'value';

/** The maximum depth of a value. A deeper value is a mistake or an attack, and would overflow the stack. */
export const maxDepth = 1000;

/** A longer path is shortened to its beginning and its end. */
const shownSegments = 16;

export class ValuePath {
  private readonly keys: (string | number)[] = [];
  /** The JavaScript form of a segment where it is not the key: `.get("a")` for the 1 in the third entry of a Map. */
  private readonly labels: (string | undefined)[] = [];

  constructor(
    private readonly what: string,
    private readonly root: Root,
  ) {}

  push(key: string | number, label?: string): void {
    this.keys.push(key);
    this.labels.push(label);
    if (this.keys.length > maxDepth) {
      this.refuse(
        `is nested more than ${maxDepth} levels deep`,
        'Flatten the value, or store it elsewhere and pass a reference.',
      );
    }
  }

  pop(): void {
    this.keys.pop();
    this.labels.pop();
  }

  snapshot(): readonly (string | number)[] {
    return this.keys.slice();
  }

  get depth(): number {
    return this.keys.length;
  }

  toString(): string {
    return this.upTo(this.depth);
  }

  /** Returns the first `depth` segments of the path. */
  upTo(depth: number): string {
    const segments = this.keys.slice(0, depth).map((key, i) => this.labels[i] ?? segment(key));
    if (segments.length > shownSegments) segments.splice(shownSegments / 2, segments.length - shownSegments, ' … ');
    return this.root + segments.join('');
  }

  refuse(problem: string, advice: string): never {
    const path = this.toString();
    const subject = this.keys.length === 0 ? 'it' : path;
    throw new HoldfastError('UNSERIALIZABLE', `${this.what} cannot be stored: ${subject} ${problem}. ${advice}`, {
      details: { what: this.what, path, problem },
    });
  }

  /** Postgres cannot store NUL in a text, and neither database stores half a surrogate pair unchanged. */
  checkText(text: string): string {
    const problem = textProblem(text);
    if (problem !== undefined) {
      this.refuse(`contains ${problem}`, 'Remove it, or pass the bytes as a Buffer or as base64 text.');
    }
    return text;
  }

  checkArray(array: readonly unknown[]): void {
    const extra = extraProperty(array);
    if (extra === undefined) return;
    this.refuse(
      `is an array that has the property ${JSON.stringify(extra)} beside its elements. This property would be lost`,
      'Store a copy of the elements ([...array]), or an object with the properties you need ({ ...match.groups }).',
    );
  }

  checkKey(key: string): void {
    if (key === '__proto__') {
      this.refuse(
        'has a key "__proto__"',
        'Readers omit this key, because it could replace the prototype of an object. Rename the key.',
      );
    }
    const problem = textProblem(key);
    if (problem !== undefined) this.refuse(`has the key ${JSON.stringify(key)}, with ${problem}`, 'Rename the key.');
  }
}

export function textProblem(text: string): string | undefined {
  if (text.includes('\0')) return 'a NUL character, which Postgres cannot store';
  if (!text.isWellFormed()) return 'half a surrogate pair, which is not valid Unicode';
  return undefined;
}

/** Wraps an error of a getter, a `to` function, a serializer or JSON in the typed error for storing `what`. */
export function unserializable(what: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause, 'UNSERIALIZABLE')) return cause;
  return new HoldfastError(
    'UNSERIALIZABLE',
    `${what} cannot be stored: reading it threw ${describeError(cause)}. Pass plain data that can be read and copied.`,
    { details: { what }, cause },
  );
}

/** Wraps an error of reading back the text of `what` in the typed error for storing `what`. */
export function notReadBack(what: string, cause: unknown, advice: string): HoldfastError {
  return new HoldfastError(
    'UNSERIALIZABLE',
    `${what} cannot be stored: reading back its text threw ${describeError(cause)}. ${advice}`,
    { details: { what }, cause },
  );
}

function segment(key: string | number): string {
  if (typeof key === 'number') return `[${key}]`;
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}
