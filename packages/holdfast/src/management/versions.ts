import type { Engine } from '../engine/engine.js';
import { HoldfastError } from '../model/errors.js';
import { rejectExtraOptions, wrongOption } from '../model/options.js';
import { didYouMean } from '../model/suggest.js';
import type { VersionRecord } from '../storage/contract/storage.js';

/**
 * `app.versions`: shows which versions of the app were launched, and which version is the latest. The latest version
 * runs work that has no version, such as workflows that a client enqueues. A client without a name lists the versions
 * of all apps.
 */
export interface VersionOperations {
  /**
   * Returns all versions that were launched, latest first.
   *
   * @example
   * for (const { name } of await app.versions.list()) console.log(name);
   */
  list(): Promise<VersionRecord[]>;
  /**
   * Returns the latest version, or undefined if none was launched.
   *
   * @example
   * const latest = await app.versions.latest();
   * if (latest?.name !== app.version) console.log('A newer version is running.');
   */
  latest(): Promise<VersionRecord | undefined>;
  /**
   * Makes a version the latest, for example to roll back. Rejects if no process has launched that version.
   *
   * @example
   * await app.versions.setLatest('2026-03-01');
   */
  setLatest(name: string): Promise<void>;
}

export function versionOperations(engine: Engine): VersionOperations {
  const { appName } = engine.writer;
  const list = () => engine.storage.versions.list(appName);
  const operations: VersionOperations = {
    list,
    latest: async () => {
      const versions = await list();
      if (new Set(versions.map((version) => version.appName)).size > 1 && appName === '') throw nameless('latest()');
      return versions[0];
    },
    setLatest: async (name) => {
      if (appName === '') throw nameless('setLatest()');
      if (await engine.storage.versions.setLatest({ name, appName, now: engine.clock.now() })) {
        // Work without a version must now be taken by processes of another version.
        engine.news.announce('queues');
        return;
      }
      const known = (await list()).map((version) => version.name);
      throw new HoldfastError('INVALID_NAME', `No process has launched version "${name}".${didYouMean(name, known)}`, {
        details: { name, known },
      });
    },
  };
  return rejectExtraOptions(operations, { list: 0, latest: 0, setLatest: 1 });
}

function nameless(call: string): HoldfastError {
  return wrongOption(`versions.${call}`, 'name', 'must be given to connect(): each version belongs to an app');
}
