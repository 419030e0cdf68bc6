import type { Engine } from '../engine/engine.js';
import { HoldfastError } from '../model/errors.js';
import { misplacedOption, refusingOptions } from '../model/options.js';
import { didYouMean } from '../model/suggest.js';
import type { VersionRecord } from '../storage/contract/storage.js';

/**
 * `app.versions`: which versions of the app have run, and which is the latest. A client without a name lists those of all apps,
 * and cannot say which of several is meant.
 */
export interface VersionOperations {
  /** Newest first. */
  list(): Promise<VersionRecord[]>;
  latest(): Promise<VersionRecord | undefined>;
  /** Makes a version the latest, for instance to roll back. */
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
        // Work without a version is now for other processes than before.
        engine.news.announce('queues');
        return;
      }
      const known = (await list()).map((version) => version.name);
      throw new HoldfastError('INVALID_NAME', `No version "${name}" has been launched.${didYouMean(name, known)}`, {
        details: { name, known },
      });
    },
  };
  return refusingOptions(operations, { list: 0, latest: 0, setLatest: 1 });
}

function nameless(call: string): HoldfastError {
  return misplacedOption(`versions.${call}`, 'name', 'must be given to connect(): it says of which app the version is');
}
