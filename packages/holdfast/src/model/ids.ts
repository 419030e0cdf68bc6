import { createHash, randomBytes, randomFillSync } from 'node:crypto';
import { HoldfastError } from './errors.js';
import { show } from './options.js';

/** The maximum number of characters. Longer names would not fit an index entry together with the name of a step. */
const longestName = 512;

/** An index entry of Postgres has at most 2704 bytes, and one index contains two names and the name of a queue. */
const maxBytes = 900;

/**
 * Returns a UUIDv7. It starts with the time in milliseconds, so new rows go to the end of the primary key. At a
 * million rows, the throughput is a third higher than with random IDs.
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
 * Creates owner tokens. Each claim of a workflow writes a new token into `owner_xid`; only the holder of the current
 * token owns the workflow. All tokens of one engine have the same prefix. By this prefix the engine distinguishes its
 * own work from the work that an earlier process with the same executor ID left behind.
 */
export class OwnerTokens {
  /** The prefix of all tokens. It is unique to this launch. */
  readonly incarnation = randomBytes(8).toString('hex');
  private count = 0;

  next(): string {
    return `${this.incarnation}.${(this.count++).toString(36)}`;
  }

  /** Returns true if this engine issued the token. */
  issued(token: string | null): token is string {
    return token?.startsWith(`${this.incarnation}.`) === true;
  }

  /** A LIKE pattern for every token of this engine. */
  get pattern(): string {
    return `${this.incarnation}.%`;
  }
}

// One system call for entropy serves many IDs. A system call per ID would cost more than the rest of the work.
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
 * Random numbers and UUIDs that a replay repeats. The generator (xoshiro128**) is seeded with the workflow's ID.
 * Anyone who knows the ID can compute the numbers, so they must not be used for secrets.
 */
export class SeededRandom {
  private readonly state: Uint32Array;

  constructor(seed: string) {
    const digest = createHash('sha256').update(seed).digest();
    this.state = Uint32Array.from([0, 4, 8, 12], (at) => digest.readUInt32LE(at));
  }

  /** Returns a number from 0 (included) to 1 (not included), with 53 random bits. */
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

/** Returns the name or ID if both databases can store and index it. Throws a typed error otherwise. */
export function checkName(what: string, name: unknown): string {
  const problem = nameProblem(name);
  if (problem === undefined) return name as string;
  const advice = isHandle(name)
    ? 'Pass the "id" of the handle.'
    : typeof name === 'function'
      ? 'Give the name before the function, as in workflow("name", fn) or run("name", fn).'
      : 'Choose another one.';
  throw new HoldfastError('INVALID_NAME', `${what} ${problem}. ${advice}`, { details: { name } });
}

function isHandle(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'id' in value;
}

/** The maximum number of characters in a class or instance name, in the tables that are shared with DBOS. */
const longestClassName = 255;

/** Like {@link checkName}, for the names of classes and instances. */
export function checkClassName(what: string, name: unknown): string {
  const checked = checkName(what, name);
  if (checked.length <= longestClassName) return checked;
  throw new HoldfastError(
    'INVALID_NAME',
    `${what} is ${checked.length} characters long, but at most ${longestClassName} are allowed. Choose another one.`,
    { details: { name } },
  );
}

/** The names of built-in operations start with this prefix, in the tables that are shared with DBOS. */
const reservedPrefix = 'DBOS.';

/** Like {@link checkName}, for user-defined names that are recorded beside the names of built-in operations. */
export function checkUserName(what: string, name: unknown): string {
  const checked = checkName(what, name);
  if (!checked.startsWith(reservedPrefix)) return checked;
  throw new HoldfastError(
    'INVALID_NAME',
    `${what} must not begin with "${reservedPrefix}", as "${name}" does: such names are reserved. Choose another one.`,
    { details: { name } },
  );
}

function nameProblem(name: unknown): string | undefined {
  if (typeof name !== 'string') return `must be a string, but it is ${show(name)}`;
  if (name.trim() === '') return 'must not be empty';
  if (name.length > longestName) return `is ${name.length} characters long, but at most ${longestName} are allowed`;
  const bytes = Buffer.byteLength(name);
  if (bytes > maxBytes) return `is ${bytes} bytes long in UTF-8, but at most ${maxBytes} are allowed`;
  if (name.includes('\0')) return 'contains a NUL character, which Postgres cannot store';
  if (!name.isWellFormed()) return 'contains half a surrogate pair, which is not valid Unicode';
  return undefined;
}
