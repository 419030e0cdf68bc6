import { createHash } from 'node:crypto';
import type { WorkflowDefinition } from '../engine/definition.js';

/**
 * The application version: a hash of the workflows' source. A workflow is only ever recovered by the version that
 * started it. The library's own version is left out, so that upgrading Holdfast strands nothing.
 */
export function computeVersion(definitions: readonly WorkflowDefinition[]): string {
  const hash = createHash('sha256');
  const inOrder = [...definitions].sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const { name, fn } of inOrder) hash.update(`${name}\0${fn.toString()}\0`);
  return hash.digest('hex').slice(0, 32);
}
