/**
 * Where in a value we are, and the typed error that says so: `Input of workflow "checkout" cannot be stored:
 * args[0].items[2].callback is a function. …`. Both formats walk with a {@link ValuePath} and refuse through it, so
 * that every refusal names the same things in the same words.
 */

import { describeError, HoldfastError, isHoldfastError } from '../model/errors.js';
import { extraProperty } from './arrays.js';

/** What a path starts with: the arguments of a call, or any other value. */
export type Root = 'args' | 'value';

/** Deeper values are a mistake (or an attack), and would end in a stack overflow instead of a typed error. */
export const deepest = 1000;

/** A path of a thousand segments helps nobody; its two ends do. */
const shownSegments = 16;

export class ValuePath {
  private readonly keys: (string | number)[] = [];
  /** How a segment reads in JavaScript where that is not its key: `.get("a")` for the 1 in a map's third entry. */
  private readonly labels: (string | undefined)[] = [];

  constructor(
    private readonly what: string,
    private readonly root: Root,
  ) {}

  push(key: string | number, label?: string): void {
    this.keys.push(key);
    this.labels.push(label);
    if (this.keys.length > deepest) {
      this.refuse(
        `is nested more than ${deepest} levels deep`,
        'Flatten it, or store it elsewhere and pass a reference.',
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

  /** The place that many levels down, on the way to this one. */
  upTo(depth: number): string {
    const segments = this.keys.slice(0, depth).map((key, at) => this.labels[at] ?? segment(key));
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

  /** Postgres holds no NUL in any text, and neither database holds half a surrogate pair unchanged. */
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
      `is an array that has the property ${JSON.stringify(extra)} beside its elements`,
      'It would be lost. Store a copy of the elements ([...array]), or an object with what you need ({ ...match.groups }).',
    );
  }

  checkKey(key: string): void {
    if (key === '__proto__') {
      this.refuse(
        'has a key "__proto__"',
        'Readers drop such a key, because it can replace the prototype of what it is copied to. Rename it.',
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

/** What a getter, a `to` function, a serializer or JSON itself threw, as the typed error of storing `what`. */
export function unserializable(what: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause, 'UNSERIALIZABLE')) return cause;
  return new HoldfastError(
    'UNSERIALIZABLE',
    `${what} cannot be stored: reading it threw ${describeError(cause)}. Pass plain data that can be read and copied.`,
    { details: { what }, cause },
  );
}

/** What reading back the text of `what` threw, as the typed error of storing it. */
export function notReadBack(what: string, cause: unknown, advice: string): HoldfastError {
  return new HoldfastError(
    'UNSERIALIZABLE',
    `${what} cannot be stored: reading back what was written of it threw ${describeError(cause)}. ${advice}`,
    { details: { what }, cause },
  );
}

function segment(key: string | number): string {
  if (typeof key === 'number') return `[${key}]`;
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}
