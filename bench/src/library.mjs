/**
 * Owns which build of Holdfast a process measures: the build of this checkout, or the build in the folder of
 * `HOLDFAST_BUILD`, which is `packages/holdfast` of another checkout.
 */
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

/** @returns {Promise<typeof import('holdfast')>} */
export function library() {
  const folder = process.env.HOLDFAST_BUILD;
  return folder ? import(pathToFileURL(join(resolve(folder), 'dist', 'index.js')).href) : import('holdfast');
}
