/**
 * Turns the JSON and `meta` of superjson (see flatten.ts) back into the value.
 *
 * First the annotations are put into a tree of {@link Place}s by path. Then each place is revived once, when another
 * place first needs it. An object is returned before its members are set, so that cycles work. Places with the same
 * object share one place. Only annotated places are visited; all other JSON is used as JSON.parse returned it.
 *
 * Paths come from the database. Only own properties are looked up, so a path with "__proto__" is refused.
 */
import { HoldfastError, isError } from '../model/errors.js';
import { classNamed } from './classes.js';
import { fillError, openError } from './error-record.js';
import { type Meta, type TagNode, type TagTree, unbox } from './flatten.js';
import { type Tag, typedArrays } from './recipes.js';

export function revive(json: unknown, meta: Meta): unknown {
  const root = new Place(json);
  // Rows of superjson 1 have no version and do not escape backslashes in keys.
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

  /** `json` is the stored JSON. All places are created before the first is revived, so `json` is not yet changed. */
  constructor(private readonly json: unknown) {}

  child(key: string): Place {
    const known = this.children?.get(key);
    if (known !== undefined) return known;
    const { json } = this;
    if (typeof json !== 'object' || json === null || !Object.hasOwn(json, key)) {
      throw new Error(`its "meta" names a member ${JSON.stringify(key)} that does not exist`);
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
      throw new Error('an object in it contains itself and cannot be created');
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
      if (Class === undefined) throw new Error(`it contains a ${name}, which this version of Node.js does not have`);
      return new Class(raw as never);
    }
    if (kind === 'custom' && name === 'Buffer') return Buffer.from(raw as number[]);
    if (kind === 'custom' && name === 'ArrayBuffer') return bytes(raw);
    if (kind === 'custom' && name === 'DataView') return new DataView(bytes(raw));
    if (kind === 'class' || kind === 'custom') return this.convertInstance(name, raw);
    throw new Error(`it contains a ${kind} "${name}", which Holdfast does not support`);
  }

  private convertInstance(name: string, raw: unknown): unknown {
    const registered = classNamed(name);
    if (registered === undefined) {
      throw new Error(`it contains an instance of the class "${name}", which is not registered: call registerClass`);
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
      throw new Error(`it contains a value of the type "${tag}", which Holdfast does not support`);
  }
}

function bytes(raw: unknown): ArrayBuffer {
  // The bytes are copied, because small Buffers are views of a shared pool.
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
  for (const [path, otherPaths] of Object.entries(others)) {
    const first = find(root, path, legacy);
    for (const other of otherPaths) unite(first, find(root, other, legacy));
  }
}

/** Both places come from `find`, so neither has `same` yet. Therefore the chain of `same` never has a cycle. */
function unite(first: Place, other: Place): void {
  if (other !== first) other.same = first;
}

/**
 * Returns the place at the path. superjson also writes paths that pass through a repeated object. These paths refer
 * to the first place of the object.
 */
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

/** Wraps an error of reading a stored text in the typed error. */
export function unreadable(format: string, text: string, cause: unknown): HoldfastError {
  const reason = isError(cause) ? cause.message : String(cause);
  const excerpt = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  return new HoldfastError(
    'UNREADABLE_VALUE',
    `A stored ${format} value could not be read: ${reason}. The row was changed outside Holdfast, or was written by ` +
      'code that this process does not have. Deploy the code that can read the value, or correct the row.',
    { details: { format, text: excerpt }, cause },
  );
}
