import { createHash, randomBytes, randomFillSync } from 'node:crypto';
import { HoldfastError } from './errors.js';
import { show } from './options.js';

/** Longer ones would not fit an index entry of either database together with a step's name. */
const longestName = 512;

/** An index entry of Postgres has 2704 bytes, and there is one that holds two names and that of a queue. */
const maxBytes = 900;

/**
 * A UUIDv7: milliseconds first, so that new rows go to the end of the primary key instead of all over it.
 * At a million rows that is a third more throughput than random ids.
 */
export function newWorkflowId(nowMs: number): string {
  const bytes = nextRandom16();
  let ms = Math.floor(nowMs);
  for (let i = 5; i >= 0; i--) {
    bytes[i] = ms % 256;
    ms = Math.floor(ms / 256);
  }
  return formatUuid(bytes, 7);
}

/**
 * Owner tokens: what one claim of a workflow writes into `owner_xid`. Whoever holds another one owns nothing.
 * All tokens of one engine begin alike, so that it can tell its own live work from what an earlier process with the
 * same executor ID left behind.
 */
export class OwnerTokens {
  /** What they begin with: this launch, and no other. */
  readonly incarnation = randomBytes(8).toString('hex');
  private count = 0;

  next(): string {
    return `${this.incarnation}.${(this.count++).toString(36)}`;
  }

  /** Whether this engine has issued the token. */
  issued(token: string | null): token is string {
    return token?.startsWith(`${this.incarnation}.`) === true;
  }

  /** A LIKE pattern for every token of this engine. */
  get pattern(): string {
    return `${this.incarnation}.%`;
  }
}

// One request for entropy serves many ids: a call to the system for each would cost more than the id itself.
const pool = new Uint8Array(4096);
let poolUsed = pool.length;

function nextRandom16(): Uint8Array {
  if (poolUsed + 16 > pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  poolUsed += 16;
  return pool.slice(poolUsed - 16, poolUsed);
}

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

function formatUuid(bytes: Uint8Array, version: 4 | 7): string {
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | (version << 4);
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  let text = '';
  for (let i = 0; i < 16; i++) {
    text += hex[bytes[i] ?? 0];
    if (i === 3 || i === 5 || i === 7 || i === 9) text += '-';
  }
  return text;
}

/**
 * Chance that a replay repeats: numbers and UUIDs from a generator seeded by the workflow's ID (xoshiro128**).
 * Anyone who knows the ID can compute them, so they are unfit for secrets.
 */
export class SeededRandom {
  private readonly state: Uint32Array;

  constructor(seed: string) {
    const digest = createHash('sha256').update(seed).digest();
    this.state = Uint32Array.from([0, 4, 8, 12], (at) => digest.readUInt32LE(at));
  }

  /** A number from 0 up to, but not including, 1, with 53 random bits. */
  number(): number {
    return (this.next() * 2 ** 21 + (this.next() >>> 11)) / 2 ** 53;
  }

  uuid(): string {
    const bytes = new Uint8Array(16);
    const view = new DataView(bytes.buffer);
    for (let at = 0; at < 16; at += 4) view.setUint32(at, this.next());
    return formatUuid(bytes, 4);
  }

  private next(): number {
    const s = this.state as unknown as [number, number, number, number];
    const result = Math.imul(rotateLeft(Math.imul(s[1], 5), 7), 9) >>> 0;
    const shifted = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotateLeft(s[3], 11);
    return result;
  }
}

function rotateLeft(value: number, by: number): number {
  return (value << by) | (value >>> (32 - by));
}

/** A name or ID that both databases can store and index, or a typed error. */
export function checkName(what: string, name: unknown): string {
  const problem = nameProblem(name);
  if (problem === undefined) return name as string;
  const advice = isHandle(name) ? 'Of a handle, give the "id".' : 'Choose another one.';
  throw new HoldfastError('INVALID_NAME', `${what} ${problem}. ${advice}`, { details: { name } });
}

function isHandle(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'id' in value;
}

/** How many characters the columns for the names of classes and instances have, in the tables that we share with DBOS. */
const longestClassName = 255;

/** {@link checkName} for classes and their instances. */
export function checkClassName(what: string, name: unknown): string {
  const checked = checkName(what, name);
  if (checked.length <= longestClassName) return checked;
  throw new HoldfastError(
    'INVALID_NAME',
    `${what} is ${checked.length} characters long, and ${longestClassName} are allowed. Choose another one.`,
    { details: { name } },
  );
}

/** Names of our own operations start like this, in the tables that we share with DBOS. */
const reservedPrefix = 'DBOS.';

/** {@link checkName} for what is recorded beside our own operations. */
export function checkOwnName(what: string, name: unknown): string {
  const checked = checkName(what, name);
  if (!checked.startsWith(reservedPrefix)) return checked;
  throw new HoldfastError(
    'INVALID_NAME',
    `${what} must not begin with "${reservedPrefix}", as "${name}" does: such names are reserved. Choose another one.`,
    { details: { name } },
  );
}

function nameProblem(name: unknown): string | undefined {
  if (typeof name !== 'string') return `must be a text, but it is ${show(name)}`;
  if (name.trim() === '') return 'must not be empty';
  if (name.length > longestName) return `is ${name.length} characters long, and ${longestName} are allowed`;
  const bytes = Buffer.byteLength(name);
  if (bytes > maxBytes) return `is ${bytes} bytes long in UTF-8, and ${maxBytes} are allowed`;
  if (name.includes('\0')) return 'contains a NUL character, which Postgres cannot store';
  if (!name.isWellFormed()) return 'contains half a surrogate pair, which is not valid Unicode';
  return undefined;
}
