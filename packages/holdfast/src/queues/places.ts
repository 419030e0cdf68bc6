import type { Engine } from '../engine/engine.js';

/** Processes choose which of them acts first without asking each other: each hashes a number that all of them know. */

/** The delay between two groups of places, and its random part. */
const groupMs = { apart: 30, jitter: 20 };

/**
 * Returns how many of the other processes come before this one. Two processes may find the same place if they disagree
 * about which executors are alive.
 */
export function rankAmong({ owners }: Pick<Engine, 'owners'>, token: number, others: readonly string[]): number {
  const own = score(token, owners.incarnation);
  return others.filter((each) => score(token, each) < own).length;
}

/**
 * Returns the delay in milliseconds of a process that comes `behind` places after those that act at once. Later
 * processes act in groups of 1, 2, 4 and so on.
 */
export function delayOfPlace(behind: number): number {
  const group = Math.floor(Math.log2(behind + 1));
  return groupMs.apart * (group + 1) + Math.random() * groupMs.jitter;
}

/** Hashes the token with the incarnation of a process. Every process computes the same value. */
function score(token: number, incarnation: string): number {
  let hash = token | 0;
  for (let i = 0; i < incarnation.length; i++) hash = Math.imul(hash ^ incarnation.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
