import { createHash, randomUUID } from 'node:crypto';
import type { VersionRecord, Versions } from '../contract/storage.js';
import { type Database, type Dialect, everyRow } from '../database.js';

/**
 * The table `application_versions`: the versions of each app that have run, and the latest of them. In the layout
 * that is shared with DBOS, `version_name` is unique over all applications. An application whose version name is
 * already taken stores its version as `<application>/<version>`, and the name that the application uses in
 * `name_in_app`.
 */
export class SqlVersions implements Versions {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = versionStatements(database.dialect);
  }

  async register(params: { name: string; appName: string; asLatest?: boolean; now: number }) {
    const { name, appName, asLatest = true, now } = params;
    const row = [randomUUID(), name, appName, now, asLatest];
    const isNew = (await this.database.query(this.sql.register, row)).length > 0;
    const listed = await this.list(appName);
    const registered = listed.find((version) => version.name === name);
    // If the row was not new, another process has already committed it: a process of this app, or of another app.
    if (isNew || (registered && (!asLatest || registered.latestAt > 0))) return listed[0];
    if (!registered) await this.registerSecond(row);
    // The version was registered before, by a process that did not make it the latest (`asLatest: false`).
    else await this.database.query(this.sql.raise, [name, appName, now]);
    return (await this.list(appName))[0];
  }

  /**
   * Stores a version whose name another app has taken, as `<application>/<version>`. If that name is taken too, a hash
   * makes the name unique.
   */
  private async registerSecond(row: readonly unknown[]): Promise<void> {
    const [, name, appName] = row as [unknown, string, string];
    if ((await this.database.query(this.sql.registerSecond, [...row, ''])).length > 0) return;
    // Another process of this app may have registered the same version in the meantime.
    if ((await this.list(appName)).some((version) => version.name === name)) return;
    // The suffix is a hash and not a random text: two processes of this app that get here at the same time must compute
    // the same name, so that only one row is stored.
    const hash = createHash('sha256')
      .update(JSON.stringify([appName, name]))
      .digest('hex')
      .slice(0, 16);
    await this.database.query(this.sql.registerSecond, [...row, `/${hash}`]);
  }

  async apps(): Promise<string[]> {
    return (await this.database.query(this.sql.apps, [])).map((row) => row.application_name as string);
  }

  async list(appName: string): Promise<VersionRecord[]> {
    const rows = await this.database.query(this.sql.list, [appName]);
    return rows.map((row) => ({
      name: row.name as string,
      appName: row.application_name as string | null,
      createdAt: Number(row.created_at),
      latestAt: Number(row.version_timestamp),
    }));
  }

  async setLatest(params: { name: string; appName: string; now: number }): Promise<boolean> {
    return (await this.database.query(this.sql.setLatest, [params.name, params.appName, params.now])).length > 0;
  }
}

const nameInApp = 'coalesce(name_in_app, version_name)';

/** Returns a scalar subquery for the latest version of an application, by the name that the application uses. */
export function latestVersion(d: Dialect, app: string): string {
  return (
    `(select ${nameInApp} from ${d.table('application_versions')} where ${everyRow('version_name')} ` +
    `and (application_name is null or application_name = ${app}) order by version_timestamp desc, created_at desc limit 1)`
  );
}

function versionStatements(d: Dialect) {
  const versions = d.table('application_versions');
  const ofApp = (app: string) =>
    `${everyRow('version_name')} and (application_name is null or application_name = ${app})`;
  // The instant is later than that of every other version, even if two are registered within one millisecond or a clock
  // is behind.
  const latestAfter = (now: string) =>
    `(select case when max(version_timestamp) >= cast(${now} as bigint) then max(version_timestamp) + 1 ` +
    `else cast(${now} as bigint) end from ${versions} where ${everyRow('version_name')})`;
  return {
    register: {
      name: 'versions.register',
      text:
        `insert into ${versions} (version_id, version_name, application_name, version_timestamp, created_at) ` +
        `values ($1, $2, $3, case when cast($5 as boolean) then ${latestAfter('$4')} else 0 end, $4) ` +
        'on conflict do nothing returning version_id',
    },
    registerSecond: {
      name: 'versions.registerSecond',
      text:
        `insert into ${versions} ` +
        '(version_id, version_name, name_in_app, application_name, version_timestamp, created_at) ' +
        `select $1, cast($3 as text) || '/' || $2 || $6, $2, $3, ` +
        `case when cast($5 as boolean) then ${latestAfter('$4')} else 0 end, cast($4 as bigint)` +
        ' on conflict do nothing returning version_id',
    },
    raise: {
      name: 'versions.raise',
      text:
        `update ${versions} set version_timestamp = ${latestAfter('$3')} where ${nameInApp} = $1 ` +
        `and ${ofApp('$2')} and version_timestamp = 0`,
    },
    apps: {
      name: 'versions.apps',
      text: `select distinct application_name from ${versions} where ${everyRow('version_name')} and application_name is not null`,
    },
    list: {
      name: 'versions.list',
      text:
        `select ${nameInApp} as name, application_name, created_at, version_timestamp from ${versions} ` +
        `where ${everyRow('version_name')} and (${ofApp('$1')} or cast($1 as text) = '') order by version_timestamp desc, created_at desc`,
    },
    setLatest: {
      name: 'versions.setLatest',
      text:
        `update ${versions} set version_timestamp = ${latestAfter('$3')} ` +
        `where ${nameInApp} = $1 and ${ofApp('$2')} returning version_id`,
    },
  };
}
