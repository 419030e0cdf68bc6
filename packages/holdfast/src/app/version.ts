import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import type { WorkflowDefinition } from '../engine/api/definition.js';
import type { Logger } from '../model/logger.js';
import { wrongOption } from '../model/options.js';
import { normalSource } from './normal-source.js';
import { versionFromEnvironment } from './version-from-environment.js';
import { isWatched } from './watch-mode.js';

type Code = Pick<WorkflowDefinition, 'name' | 'className' | 'source'>;

/** Prefix of development versions. No other version may start with it. */
const devPrefix = 'dev@';

/**
 * Returns the development version. An app in development has one version per machine, whatever its code. After an
 * edit, the next process continues unfinished work. The replay check stalls a workflow whose steps no longer match its
 * recorded steps.
 */
function developmentVersion(): string {
  return `${devPrefix}${hostname()}`;
}

/** Determines the version of a process from its launch options, the environment and its code. */
export async function versionOf(
  { version, dev }: VersionOptions,
  code: readonly Code[],
  logger: Logger,
): Promise<string> {
  if (version !== undefined) return version;
  const fromEnvironment = dev ? undefined : versionFromEnvironment();
  if (fromEnvironment !== undefined) return checkNotDevelopment('HOLDFAST_VERSION', fromEnvironment);
  if (dev ?? isWatched()) {
    if (dev === undefined)
      logger.info('A watcher restarts this process after each edit, so launch() uses { dev: true }.');
    return developmentVersion();
  }
  warnOfMissingSource(code, logger);
  const computed = await computeVersion(code);
  if (process.env.NODE_ENV === 'production' && code.length > 0) warnOfHash(computed, logger);
  return computed;
}

export interface VersionOptions {
  readonly version?: string | undefined;
  readonly dev?: boolean | undefined;
}

/** Refuses `version` together with `dev: true`, and a version that looks like a development version. */
export function checkVersionOptions({ version, dev }: VersionOptions): void {
  if (version === undefined) return;
  if (dev) throw wrongOption('launch()', 'dev', 'replaces a version: leave out "dev" or "version"');
  checkNotDevelopment('version', version);
}

function checkNotDevelopment(option: string, version: string): string {
  if (!version.startsWith(devPrefix)) return version;
  throw wrongOption('launch()', option, `must not begin with the reserved "${devPrefix}": use { dev: true }`);
}

/** Warns that a hash is a poor version in production: it may change without reason, and misses changes in helpers. */
function warnOfHash(version: string, logger: Logger): void {
  logger.warn(
    'No version is set in production, so the version of this process is a hash of its workflow functions ' +
      `("${version}"). Steps and helpers that these functions call are not in the hash, and a minifier changes it. ` +
      'Set HOLDFAST_VERSION or launch({ version }). If new code must continue old work, use one fixed version, and ' +
      'patch() around each change of a workflow. If old processes run until their work is done, use ' +
      'platformVersion().',
  );
}

/**
 * Computes the version of an app: a hash of the source code of its workflows. Only this version recovers a workflow.
 * The version of Holdfast is not in the hash, so an upgrade of Holdfast strands no work.
 */
async function computeVersion(code: readonly Code[]): Promise<string> {
  const hash = createHash('sha256');
  const parts = await Promise.all(
    code.map(async ({ name, className, source }) => ({
      name: className === null ? name : `${className}\0${name}`,
      source: await normalSource(source),
    })),
  );
  // A class and one of its instances may both be registered. Their shared code counts once.
  const distinct = [...new Map(parts.map((part) => [`${part.name}\0${part.source}`, part])).values()];
  const inOrder = distinct.sort((a, b) => (a.name < b.name || (a.name === b.name && a.source < b.source) ? -1 : 1));
  for (const { name, source } of inOrder) hash.update(`${name}\0${source}\0`);
  return hash.digest('hex').slice(0, 32);
}

/**
 * Warns of bound functions and functions built into Node. They have no source text, so the version does not reflect
 * them.
 */
function warnOfMissingSource(code: readonly Code[], logger: Logger): void {
  const withoutSource = code.filter(({ source }) => /\{\s*\[native code\]\s*\}\s*$/.test(source));
  if (withoutSource.length === 0) return;
  const names = withoutSource.map(({ name }) => `"${name}"`).join(', ');
  logger.warn(
    `The version of this process does not reflect changes of ${names}: a bound or built-in function has no source ` +
      'text, so new code would continue the work of old code. Set launch({ version }), or give workflow() a ' +
      'function that contains the code.',
  );
}
