/** The properties of an error that are stored although they are objects: whole (`'whole'`), or some parts of them. */
import { invalidOption } from '../model/options.js';

export type KeepOption = 'all' | readonly string[];

/** By name, and below it by the name of the part. */
export type Kept = ReadonlyMap<string, Kept | 'whole'>;

export function checkKeep(what: string, option: string, keep: unknown): void {
  if (keep === undefined || keep === 'all') return;
  const isList = Array.isArray(keep) && keep.every((each) => typeof each === 'string' && each !== '');
  if (!isList) throw invalidOption(what, option, keep, '"all", or a list of names such as ["response.data"]');
}

export function keptBy(...options: readonly (KeepOption | undefined)[]): Kept | 'whole' {
  if (options.includes('all')) return 'whole';
  const tree: MutableTree = new Map();
  for (const path of options.flat() as string[]) if (path !== undefined) add(tree, path.split('.'));
  return tree;
}

type MutableTree = Map<string, MutableTree | 'whole'>;

function add(tree: MutableTree, [name, ...rest]: readonly string[]): void {
  if (name === undefined) return;
  const known = tree.get(name);
  // "response" is more than "response.data", whichever comes first.
  if (known === 'whole') return;
  if (rest.length === 0) {
    tree.set(name, 'whole');
    return;
  }
  const below: MutableTree = known ?? new Map();
  tree.set(name, below);
  add(below, rest);
}
