import type { Engine } from '../engine/engine.js';

/** How processes choose, without asking each other, who of them acts first: by a number that all of them know. */

/** How much later each group of places acts, and the part of that which is left to chance. */
const groupMs = { apart: 30, jitter: 20 };

/** How many of the others come before this process. Views of who lives may differ: then two may find the same place. */
export function placeAmong({ owners }: Pick<Engine, 'owners'>, token: number, others: readonly string[]): number {
  const own = score(token, owners.incarnation);
  return others.filter((each) => score(token, each) < own).length;
}

/** When the process acts that comes so many places behind those that act at once: groups of 1, 2, 4, ... of them. */
export function delayOf(behind: number): number {
  const group = Math.floor(Math.log2(behind + 1));
  return groupMs.apart * (group + 1) + Math.random() * groupMs.jitter;
}

/** Every process computes the same. */
function score(token: number, incarnation: string): number {
  let hash = token | 0;
  for (let i = 0; i < incarnation.length; i++) hash = Math.imul(hash ^ incarnation.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
