import { createHash } from 'node:crypto';
import type { WorkflowDefinition } from '../engine/definition.js';

/**
 * The application version: a hash of the workflows' source. A workflow is only ever recovered by the version that
 * started it. The library's own version is left out, so that upgrading Holdfast strands nothing.
 */
export function computeVersion(code: readonly Pick<WorkflowDefinition, 'name' | 'className' | 'source'>[]): string {
  const hash = createHash('sha256');
  const parts = code.map(({ name, className, source }) => ({
    name: className === null ? name : `${className}\0${name}`,
    source,
  }));
  // A class and one of its instances may both be given.
  const distinct = [...new Map(parts.map((part) => [`${part.name}\0${part.source}`, part])).values()];
  const inOrder = distinct.sort((a, b) => (a.name < b.name || (a.name === b.name && a.source < b.source) ? -1 : 1));
  for (const { name, source } of inOrder) hash.update(`${name}\0${source}\0`);
  return hash.digest('hex').slice(0, 32);
}
