import { release } from './release.js';

/**
 * State that all copies of the package in one process share. Bundlers make copies: Next.js makes one for the
 * instrumentation and one for each route. A hot reload makes copies, and so does a program that both requires and
 * imports the package. One execution may call two copies, and each copy must know what the other has done.
 *
 * Copies of one release share everything. Copies of different releases share nothing, because the objects of one
 * release may have another shape than the code of the other expects. The only exceptions are the list of releases and
 * the value `scope` of each release, by which releases detect each other. **Invariant:** these two never change.
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

/**
 * Returns the value of this name, shared by the whole process. The first copy of this release that asks creates it.
 */
export function processWide<T>(name: string, make: () => T): T {
  if (!own.has(name)) own.set(name, make());
  return own.get(name) as T;
}

/** Returns the values that copies of other releases in this process have under the name. Usually there are none. */
export function ofOtherReleases(name: string): { readonly release: string; readonly value: unknown }[] {
  if (releases.size === 1) return [];
  const others = [...releases].filter(([each]) => each !== release);
  return others.map(([each, state]) => ({ release: each, value: state.get(name) }));
}

/**
 * Returns the release that marked the object with this name, if it is not this release. Copies of a release mark the
 * objects that they create with `Symbol.for('holdfast.<name>@<release>')`.
 */
export function otherReleaseOf(value: unknown, name: string): string | undefined {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined;
  const symbols = Object.getOwnPropertySymbols(value).map(({ description = '' }) => description.split('@'));
  return symbols.find(([start, by]) => start === `holdfast.${name}` && by !== release)?.[1];
}
