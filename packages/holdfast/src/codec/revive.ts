/**
 * The way back from superjson's JSON and `meta` (see flatten.ts) to the value.
 *
 * The annotations are first put into a tree of {@link Place}s, by path; then each place is revived once, whoever asks
 * for it first. Objects are given out before they are filled, so cycles close; places that hold the same object share
 * its place. Only annotated places are visited, everything else is used as JSON.parse made it.
 *
 * Paths come from the database and are looked up among own properties only: a path through "__proto__" leads nowhere.
 */
import { HoldfastError, isError } from '../model/errors.js';
import { classNamed } from './classes.js';
import { fillError, openError } from './error-record.js';
import { type Meta, type TagNode, type TagTree, unbox } from './flatten.js';
import { type Tag, typedArrays } from './recipes.js';

export function revive(json: unknown, meta: Meta): unknown {
  const root = new Place(json);
  // Rows of superjson 1 have no version, and wrote backslashes in keys as they are.
  const legacy = (meta.v ?? 0) < 1;
  if (meta.values !== undefined) addTags(root, meta.values, legacy);
  if (meta.referentialEqualities !== undefined) addEqualities(root, meta.referentialEqualities, legacy);
  return root.revived();
}

class Place {
  tag: Tag | undefined;
  same: Place | undefined;
  private children: Map<string, Place> | undefined;
  private state: 'raw' | 'open' | 'done' = 'raw';
  private value: unknown;

  /** `json` is what was stored here. All places are made before the first is revived, so it is still that. */
  constructor(private readonly json: unknown) {}

  child(key: string): Place {
    const known = this.children?.get(key);
    if (known !== undefined) return known;
    const { json } = this;
    if (typeof json !== 'object' || json === null || !Object.hasOwn(json, key)) {
      throw new Error(`its description speaks of a member ${JSON.stringify(key)} that is not there`);
    }
    const child = new Place((json as Record<string, unknown>)[key]);
    this.children ??= new Map();
    this.children.set(key, child);
    return child;
  }

  revived(): unknown {
    if (this.same !== undefined) return this.same.revived();
    if (this.state === 'raw') {
      this.state = 'open';
      this.value = this.convert(this.json);
      this.state = 'done';
    } else if (this.state === 'open' && this.value === undefined) {
      throw new Error('an object in it is needed to make itself');
    }
    return this.value;
  }

  private convert(raw: unknown): unknown {
    const { tag } = this;
    if (tag === undefined) {
      this.value = raw;
      return this.fill(raw);
    }
    if (typeof tag !== 'string') return this.convertNamed(tag[0], tag[1], raw);
    switch (tag) {
      case 'set': {
        const set = new Set();
        this.value = set;
        for (const member of this.fill(raw) as unknown[]) set.add(member);
        return set;
      }
      case 'map': {
        const map = new Map();
        this.value = map;
        for (const [key, member] of this.fill(raw) as [unknown, unknown][]) map.set(key, member);
        return map;
      }
      case 'Error': {
        const error = openError(raw as Record<string, unknown>);
        this.value = error;
        fillError(error, this.fill(raw) as Record<string, unknown>);
        return error;
      }
      default:
        return leaf(tag, raw);
    }
  }

  private convertNamed(kind: string, name: string, raw: unknown): unknown {
    if (kind === 'typed-array') {
      const Class = typedArrays.get(name);
      if (Class === undefined) throw new Error(`it holds a ${name}, which this version of Node.js does not have`);
      return new Class(raw as never);
    }
    if (kind === 'custom' && name === 'Buffer') return Buffer.from(raw as number[]);
    if (kind === 'custom' && name === 'ArrayBuffer') return bytes(raw);
    if (kind === 'custom' && name === 'DataView') return new DataView(bytes(raw));
    if (kind === 'class' || kind === 'custom') return this.convertInstance(name, raw);
    throw new Error(`it holds a ${kind} "${name}", which Holdfast does not have`);
  }

  private convertInstance(name: string, raw: unknown): unknown {
    const registered = classNamed(name);
    if (registered === undefined) {
      throw new Error(`it holds an instance of the class "${name}", which is not registered here: call registerClass`);
    }
    if (registered.from !== undefined) return registered.from(unbox(this.fill(raw)));
    const instance = Object.create(registered.prototype) as object;
    this.value = instance;
    for (const [key, value] of Object.entries(this.fill(raw) as object)) {
      if (key === '__proto__') continue;
      Object.defineProperty(instance, key, { value, enumerable: true, writable: true, configurable: true });
    }
    return instance;
  }

  /** Revives the annotated members of the raw container, in place. */
  private fill(raw: unknown): unknown {
    if (this.children === undefined) return raw;
    for (const [key, child] of this.children) (raw as Record<string, unknown>)[key] = child.revived();
    return raw;
  }
}

function leaf(tag: string, raw: unknown): unknown {
  switch (tag) {
    case 'undefined':
      return undefined;
    case 'bigint':
      return BigInt(raw as string);
    case 'number':
      return Number(raw);
    case 'Date':
      return new Date(raw as string);
    case 'URL':
      return new URL(raw as string);
    case 'regexp': {
      const text = raw as string;
      const end = text.lastIndexOf('/');
      return new RegExp(text.slice(1, end), text.slice(end + 1));
    }
    default:
      throw new Error(`it holds something of the type "${tag}", which Holdfast does not have`);
  }
}

function bytes(raw: unknown): ArrayBuffer {
  // A copy: small Buffers are views of a pool that they share.
  return new Uint8Array(Buffer.from(raw as string, 'base64')).buffer;
}

function addTags(place: Place, node: TagNode | TagTree, legacy: boolean): void {
  if (isTagNode(node)) {
    place.tag = node[0];
    if (node[1] !== undefined) addTags(place, node[1], legacy);
    return;
  }
  for (const [path, below] of Object.entries(node)) addTags(find(place, path, legacy), below, legacy);
}

function addEqualities(root: Place, equalities: NonNullable<Meta['referentialEqualities']>, legacy: boolean): void {
  const ofRoot = isPair(equalities) ? equalities[0] : [];
  const others = isPair(equalities) ? (equalities[1] ?? {}) : equalities;
  for (const path of ofRoot) unite(root, find(root, path, legacy));
  for (const [path, again] of Object.entries(others)) {
    const first = find(root, path, legacy);
    for (const other of again) unite(first, find(root, other, legacy));
  }
}

/** Both come from `find` and so have no `same` yet: it never leads in a circle. */
function unite(first: Place, other: Place): void {
  if (other !== first) other.same = first;
}

/** The place at the path. superjson also writes paths through a repetition: they mean the object that took its place. */
function find(from: Place, path: string, legacy: boolean): Place {
  let place = from;
  for (const key of parsePath(path, legacy)) {
    place = place.child(key);
    while (place.same !== undefined) place = place.same;
  }
  return place;
}

function parsePath(path: string, legacy: boolean): string[] {
  if (!path.includes('\\')) return path.split('.');
  const segments: string[] = [];
  let segment = '';
  for (let i = 0; i < path.length; i++) {
    const char = path.charAt(i);
    const next = path.charAt(i + 1);
    if (char === '\\' && (next === '.' || (next === '\\' && !legacy))) {
      segment += next;
      i++;
    } else if (char === '.') {
      segments.push(segment);
      segment = '';
    } else segment += char;
  }
  segments.push(segment);
  return segments;
}

function isTagNode(node: TagNode | TagTree): node is TagNode {
  return Array.isArray(node);
}

function isPair(
  equalities: NonNullable<Meta['referentialEqualities']>,
): equalities is readonly [string[], Record<string, string[]>?] {
  return Array.isArray(equalities);
}

/** What reading a stored text threw, as the typed error. */
export function unreadable(format: string, text: string, cause: unknown): HoldfastError {
  const reason = isError(cause) ? cause.message : String(cause);
  const excerpt = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  return new HoldfastError(
    'UNREADABLE_VALUE',
    `A stored ${format} value could not be read: ${reason}. It was changed or cut outside Holdfast, or written by code ` +
      'that this process does not have. Deploy the code that can read it, or correct the row.',
    { details: { format, text: excerpt }, cause },
  );
}
