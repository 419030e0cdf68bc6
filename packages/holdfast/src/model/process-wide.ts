import { release } from './release.js';

/**
 * State that all copies of the package in one process share. Bundlers make copies (Next.js: one for the instrumentation
 * and one for each route), and so do a hot reload and a program that both requires and imports the package. Two copies
 * meet in one execution, and each must know what the other has done for it.
 *
 * Copies of one release share everything; copies of two releases share nothing, because the objects of one may have
 * another shape than the code of the other expects. The list of releases, and `scope` in each of them, is what releases
 * know of each other. **Invariant:** these two never change.
 */
type State = Map<string, unknown>;

const key = Symbol.for('holdfast.releases');
const holder = globalThis as { [key]?: Map<string, State> };
if (!holder[key]) Object.defineProperty(holder, key, { value: new Map() });
const releases = holder[key] as Map<string, State>;

function stateOf(name: string): State {
  const known = releases.get(name) ?? new Map<string, unknown>();
  releases.set(name, known);
  return known;
}

const own = stateOf(release);

/** The one value of this name in the process, made by whichever copy of this release asks first. */
export function processWide<T>(name: string, make: () => T): T {
  if (!own.has(name)) own.set(name, make());
  return own.get(name) as T;
}

/** The values that the copies of other releases in this process have under the name. Usually there are none. */
export function ofOtherReleases(name: string): { readonly release: string; readonly value: unknown }[] {
  if (releases.size === 1) return [];
  const others = [...releases].filter(([each]) => each !== release);
  return others.map(([each, state]) => ({ release: each, value: state.get(name) }));
}

/**
 * The release whose mark of this name is on the object, if that is not ours. Copies of a release mark what they make under
 * `Symbol.for('holdfast.<name>@<release>')`.
 */
export function otherReleaseOf(value: unknown, name: string): string | undefined {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined;
  const symbols = Object.getOwnPropertySymbols(value).map(({ description = '' }) => description.split('@'));
  return symbols.find(([start, by]) => start === `holdfast.${name}` && by !== release)?.[1];
}
