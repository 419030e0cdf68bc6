import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import type { WorkflowDefinition } from '../engine/api/definition.js';
import type { Logger } from '../model/logger.js';
import { misplacedOption } from '../model/options.js';
import { normalSource } from './normal-source.js';
import { versionFromEnvironment } from './version-from-environment.js';
import { isWatched } from './watch-mode.js';

type Code = Pick<WorkflowDefinition, 'name' | 'className' | 'source'>;

/** Versions that were launched for development, and nothing else, begin with this. */
const developed = 'dev@';

/**
 * The one version of an app on this machine while it is developed, whatever its code. What one edit left unfinished the
 * next one goes on with; the replay check sets aside what asks for other steps than those on record. Work of any other
 * version is not its own, as for every version.
 */
function developmentVersion(): string {
  return `${developed}${hostname()}`;
}

/** The version of a process, from what its launch says and from its code. */
export async function versionOf(
  { version, dev }: VersionOptions,
  code: readonly Code[],
  logger: Logger,
): Promise<string> {
  if (version !== undefined) return version;
  const chosen = dev ? undefined : versionFromEnvironment();
  if (chosen !== undefined) return checkNotDeveloped('HOLDFAST_VERSION', chosen);
  if (dev ?? isWatched()) {
    if (dev === undefined) logger.info('Restarted at each edit, so this is launch({ dev: true }).');
    return developmentVersion();
  }
  warnOfUnseenCode(code, logger);
  const computed = await computeVersion(code);
  if (process.env.NODE_ENV === 'production' && code.length > 0) warnOfHash(computed, logger);
  return computed;
}

export interface VersionOptions {
  readonly version?: string | undefined;
  readonly dev?: boolean | undefined;
}

/** Refuses what says two things at once, and a version that development would take for its own. */
export function checkVersionOptions({ version, dev }: VersionOptions): void {
  if (version === undefined) return;
  if (dev) throw misplacedOption('launch()', 'dev', 'stands in for a version: leave one of the two out');
  checkNotDeveloped('version', version);
}

function checkNotDeveloped(option: string, version: string): string {
  if (!version.startsWith(developed)) return version;
  throw misplacedOption('launch()', option, `must not begin with "${developed}": say { dev: true } for that`);
}

/** A hash is a good start, and a poor version to deploy: it changes where it need not, and not always where it should. */
function warnOfHash(version: string, logger: Logger): void {
  logger.warn(
    `No version is set in production, so the version of this process is a hash of its workflow functions ("${version}"). Steps ` +
      'and helpers that these functions call are not in the hash, and a minifier changes it. Set HOLDFAST_VERSION or ' +
      'launch({ version }): to one value that stays, with patch() around each change of a workflow, if new code is to ' +
      'continue old work; to platformVersion(), if old processes run until their work is done.',
  );
}

/**
 * The application version: a hash of the workflows' source. A workflow is only ever recovered by the version that
 * started it. The library's own version is left out, so that upgrading Holdfast strands nothing.
 */
async function computeVersion(code: readonly Code[]): Promise<string> {
  const hash = createHash('sha256');
  const parts = await Promise.all(
    code.map(async ({ name, className, source }) => ({
      name: className === null ? name : `${className}\0${name}`,
      source: await normalSource(source),
    })),
  );
  // A class and one of its instances may both be given.
  const distinct = [...new Map(parts.map((part) => [`${part.name}\0${part.source}`, part])).values()];
  const inOrder = distinct.sort((a, b) => (a.name < b.name || (a.name === b.name && a.source < b.source) ? -1 : 1));
  for (const { name, source } of inOrder) hash.update(`${name}\0${source}\0`);
  return hash.digest('hex').slice(0, 32);
}

/** Of a function that is bound, or built into Node, there is no text: all of them would be one version, whatever they do. */
function warnOfUnseenCode(code: readonly Code[], logger: Logger): void {
  const unseen = code.filter(({ source }) => /\{\s*\[native code\]\s*\}\s*$/.test(source));
  if (unseen.length === 0) return;
  const names = unseen.map(({ name }) => `"${name}"`).join(', ');
  logger.warn(
    `The version of this process does not show changes of ${names}: a bound or built-in function has no source to make a ` +
      'version of, so that new code would go on with work of the old. Set launch({ version }) yourself, or give workflow() a ' +
      'function with the code in it.',
  );
}
