/**
 * Turns a value into the format of superjson: JSON, plus `meta`. In `meta`, `values` says which JSON stands for
 * another type, and `referentialEqualities` says which places hold the same object. revive.ts and superjson read this
 * format.
 *
 * Holdfast writes and reads the format with its own code, because superjson (2.2.6)
 * - throws on a key named "constructor",
 * - loses shared references inside Errors and class instances,
 * - changes the order of a Set that holds a shared object,
 * - does not process the result of a custom recipe.
 *
 * The tests compare both implementations for all values that both support.
 *
 * A repeated object is written in full each time, as superjson does. Readers of `json` alone (SQL, dashboards) then
 * see the whole object. The copies have a limit, because n levels of sharing would otherwise write 2^n copies. Beyond
 * the limit a repeated object is null in `json`, which superjson also reads correctly.
 */
import { isBuiltIn } from './classes.js';
import { classKey } from './error-record.js';
import { errorRecipe, type Recipe, recipeFor, specialNumber, type Tag } from './recipes.js';
import type { ValuePath } from './refusal.js';

/**
 * Annotations by relative path. The annotations below an annotated node are nested in that node, because the reader
 * converts the content before the node.
 */
export type TagNode = readonly [tag: Tag, below?: TagTree];
export type TagTree = { [path: string]: TagNode };

export interface Meta {
  values?: TagNode | TagTree;
  referentialEqualities?: readonly [string[], Record<string, string[]>?] | Record<string, string[]>;
  v?: number;
}

export interface Flattened {
  readonly json: unknown;
  readonly meta: Meta | undefined;
  /** True if reading runs user code: `from` of a registered class, or a getter of a registered Error class. */
  readonly needsUserCode: boolean;
}

const box = 'holdfast_value';

/** Returns the result of a `to` function, without the box that {@link flatten} may have put around it. */
export function unbox(fields: unknown): unknown {
  return isRecord(fields) && Object.hasOwn(fields, box) ? fields[box] : fields;
}

/** The maximum number of nodes that repeated objects may add to the text of one value. */
const maxRepeatedNodes = 10_000;

interface Sighting {
  readonly path: readonly (string | number)[];
  readonly opaque: boolean;
  /** The other paths that lead to this object. */
  otherPaths: string[] | undefined;
  /** Undefined while the walk is inside the object. Meeting the object again then means a cycle. */
  written: { readonly json: unknown; readonly tags: TagNode | TagTree | undefined; readonly nodes: number } | undefined;
}

export function flatten(value: unknown, path: ValuePath, errorFields: (error: Error) => object): Flattened {
  return new Flattening(path, errorFields).run(value);
}

class Flattening {
  private readonly sightings = new Map<object, Sighting>();
  /** The annotations of the last result of `walk`. */
  private tags: TagNode | TagTree | undefined;
  private nodes = 0;
  private repeatedNodes = 0;
  private needsUserCode = false;

  constructor(
    private readonly path: ValuePath,
    /** Returns the fields to store for an error inside the value. */
    private readonly errorFields: (error: Error) => object,
  ) {}

  run(value: unknown): Flattened {
    const json = this.walk(value);
    const values = this.tags;
    const referentialEqualities = this.equalities();
    const { needsUserCode } = this;
    if (values === undefined && referentialEqualities === undefined) return { json, meta: undefined, needsUserCode };
    const meta: Meta = {};
    if (values !== undefined) meta.values = values;
    if (referentialEqualities !== undefined) meta.referentialEqualities = referentialEqualities;
    meta.v = 1;
    return { json, meta, needsUserCode };
  }

  private walk(value: unknown): unknown {
    this.tags = undefined;
    this.nodes++;
    switch (typeof value) {
      case 'string':
        return this.path.checkText(value);
      case 'number': {
        const text = specialNumber(value);
        return text === undefined ? value : this.tagged('number', text);
      }
      case 'boolean':
        return value;
      case 'undefined':
        return this.tagged('undefined', null);
      case 'bigint':
        return this.tagged('bigint', value.toString());
      case 'object':
        return value === null ? null : this.walkObject(value);
      default:
        return refuseUnknown(value, this.path);
    }
  }

  private tagged(tag: Tag, json: unknown): unknown {
    this.tags = [tag];
    return json;
  }

  private walkObject(value: object): unknown {
    const earlier = this.sightings.get(value);
    if (earlier !== undefined) return this.repeat(earlier);
    const recipe = recipeFor(value) ?? refuseUnknown(value, this.path);
    const opaque = recipe.kind === 'fields' && recipe.opaque;
    const sighting: Sighting = { path: this.path.snapshot(), opaque, otherPaths: undefined, written: undefined };
    this.sightings.set(value, sighting);
    const before = this.nodes;
    const json = this.follow(recipe, value);
    sighting.written = { json, tags: this.tags, nodes: this.nodes - before + 1 };
    return json;
  }

  private repeat(sighting: Sighting): unknown {
    const { written } = sighting;
    if (written === undefined && sighting.opaque) {
      this.path.refuse(
        'refers back to an instance that contains it',
        'A class registered with "from" cannot be part of a cycle. Omit that reference from the result of "to".',
      );
    }
    sighting.otherPaths ??= [];
    sighting.otherPaths.push(stringPath(this.path.snapshot()));
    if (written === undefined || this.repeatedNodes + written.nodes > maxRepeatedNodes) return null;
    this.repeatedNodes += written.nodes;
    // The container of the copy counts these nodes too: a copy of a copy is as long as both.
    this.nodes += written.nodes;
    this.tags = written.tags;
    return written.json;
  }

  private follow(recipe: Recipe, value: object): unknown {
    switch (recipe.kind) {
      case 'record':
        return this.walkRecord(value as Record<string, unknown>);
      case 'array':
        return this.walkArray(value as unknown[]);
      case 'map':
        return this.wrap('map', this.walkMap(value as Map<unknown, unknown>));
      case 'set':
        return this.wrap('set', this.walkSet(value as Set<unknown>));
      case 'leaf': {
        const json = recipe.toJson(value as never);
        if (typeof json === 'string') this.path.checkText(json);
        return this.tagged(recipe.tag, json);
      }
      case 'fields': {
        const fields = recipe === errorRecipe ? this.errorFields(value as Error) : recipe.toFields(value as never);
        this.needsUserCode ||= recipe.opaque || (isRecord(fields) && Object.hasOwn(fields, classKey));
        return this.wrap(recipe.tag, this.walkFields(fields));
      }
    }
  }

  /**
   * Walks the stored form of an instance, which takes the place of the instance in the tree. superjson allows one
   * type annotation and one object identity per place. A stored form with its own type or identity is therefore put
   * in a box.
   */
  private walkFields(fields: unknown): unknown {
    if (isRecord(fields) && !Object.hasOwn(fields, box)) return this.walkRecord(fields);
    if (Array.isArray(fields)) return this.walkArray(fields);
    if (typeof fields === 'string') return this.walk(fields);
    return this.walkRecord({ [box]: fields });
  }

  /** Wraps the annotations of the content that was walked last in the tag. */
  private wrap(tag: Tag, json: unknown): unknown {
    this.tags = this.tags === undefined ? [tag] : [tag, this.tags as TagTree];
    return json;
  }

  private walkRecord(record: Record<string, unknown>): Record<string, unknown> {
    const json: Record<string, unknown> = {};
    let tags: TagTree | undefined;
    for (const key of Object.keys(record)) {
      this.path.checkKey(key);
      this.path.push(key);
      json[key] = this.walk(record[key]);
      if (this.tags !== undefined) tags = addTags(tags, key, this.tags);
      this.path.pop();
    }
    this.tags = tags;
    return json;
  }

  private walkArray(array: readonly unknown[]): unknown[] {
    this.path.checkArray(array);
    const json: unknown[] = [];
    let tags: TagTree | undefined;
    for (let i = 0; i < array.length; i++) {
      this.path.push(i);
      json.push(this.walk(array[i]));
      if (this.tags !== undefined) tags = addTags(tags, String(i), this.tags);
      this.path.pop();
    }
    this.tags = tags;
    return json;
  }

  private walkSet(set: ReadonlySet<unknown>): unknown[] {
    const json: unknown[] = [];
    let tags: TagTree | undefined;
    for (const member of set) {
      const i = json.length;
      this.path.push(i, `.values()[${i}]`);
      json.push(this.walk(member));
      if (this.tags !== undefined) tags = addTags(tags, String(i), this.tags);
      this.path.pop();
    }
    this.tags = tags;
    return json;
  }

  private walkMap(map: ReadonlyMap<unknown, unknown>): unknown[] {
    const json: unknown[] = [];
    let tags: TagTree | undefined;
    for (const entry of map) {
      const i = json.length;
      const pair: unknown[] = [];
      this.path.push(i, '');
      for (const side of [0, 1] as const) {
        this.path.push(side, mapLabel(i, side, entry[0]));
        pair.push(this.walk(entry[side]));
        if (this.tags !== undefined) tags = addTags(tags, `${i}.${side}`, this.tags, true);
        this.path.pop();
      }
      this.path.pop();
      json.push(pair);
    }
    this.tags = tags;
    return json;
  }

  private equalities(): Meta['referentialEqualities'] {
    let ofRoot: string[] | undefined;
    let others: Record<string, string[]> | undefined;
    for (const { path, otherPaths } of this.sightings.values()) {
      if (otherPaths === undefined) continue;
      if (path.length === 0) ofRoot = otherPaths;
      else {
        others ??= {};
        others[stringPath(path)] = otherPaths;
      }
    }
    if (ofRoot === undefined) return others;
    return others === undefined ? [ofRoot] : [ofRoot, others];
  }
}

/**
 * Throws for an object without a recipe, a function or a symbol. The message says what the value is and what to do.
 */
export function refuseUnknown(value: unknown, path: ValuePath): never {
  if (typeof value === 'function') {
    path.refuse('is a function', 'Store plain data. Functions belong in the code of a workflow or step.');
  }
  if (typeof value !== 'object' || value === null) path.refuse(`is a ${typeof value}`, 'Store a string instead.');
  if (typeof (value as { then?: unknown }).then === 'function') path.refuse('is a promise', 'Await it first.');
  const Class: unknown = value.constructor;
  const isInstance =
    typeof Class === 'function' && Class.prototype === Object.getPrototypeOf(value) && Class.name !== '';
  if (!isInstance) path.refuse('has a custom prototype', 'Store plain data, or an instance of a registered class.');
  const { name } = Class as { name: string };
  if (isBuiltIn(Class)) path.refuse(`is an instance of the built-in class ${name}`, 'Store plain data instead.');
  path.refuse(
    `is an instance of ${name}, a class that is not registered`,
    `Call registerClass(${name}) where the class is defined, or store plain data.`,
  );
}

function addTags(tags: TagTree | undefined, key: string, node: TagNode | TagTree, escaped = false): TagTree {
  const tree = tags ?? {};
  const at = escaped ? key : escapeKey(key);
  if (Array.isArray(node)) tree[at] = node as unknown as TagNode;
  else for (const [below, tag] of Object.entries(node as TagTree)) tree[`${at}.${below}`] = tag;
  return tree;
}

function mapLabel(index: number, side: 0 | 1, key: unknown): string {
  if (side === 0) return `.keys()[${index}]`;
  return typeof key === 'string' || typeof key === 'number' ? `.get(${JSON.stringify(key)})` : `.values()[${index}]`;
}

function stringPath(path: readonly (string | number)[]): string {
  return path.map((key) => escapeKey(String(key))).join('.');
}

function escapeKey(key: string): string {
  return /[\\.]/.test(key) ? key.replace(/[\\.]/g, '\\$&') : key;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
