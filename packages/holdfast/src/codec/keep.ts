/** The object properties of an error that are stored: whole (`'whole'`), or some of their parts. */
import { invalidOption } from '../model/options.js';

export type KeepOption = 'all' | readonly string[];

/** The kept properties by name. The value is `'whole'` or the kept parts of the property. */
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

function add(tree: MutableTree, [name, ...below]: readonly string[]): void {
  if (name === undefined) return;
  const known = tree.get(name);
  // "response" includes "response.data", in whichever order they are listed.
  if (known === 'whole') return;
  if (below.length === 0) {
    tree.set(name, 'whole');
    return;
  }
  const subtree: MutableTree = known ?? new Map();
  tree.set(name, subtree);
  add(subtree, below);
}
