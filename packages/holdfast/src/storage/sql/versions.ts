import { createHash, randomUUID } from 'node:crypto';
import type { VersionRecord, Versions } from '../contract/storage.js';
import { type Database, type Dialect, everyRow } from '../database.js';

/**
 * The table `application_versions`: which versions of an app have run, and which is the latest. In the layout that is
 * shared with DBOS its `version_name` is unique over all applications; one that comes second keeps its version under
 * `<application>/<version>`, and what the application itself calls it in `name_in_app`.
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
    // If it was not new, someone was first, and has committed by now: another process of this app, or another app.
    if (isNew || (registered && (!asLatest || registered.latestAt > 0))) return listed[0];
    if (!registered) await this.registerSecond(row);
    // By a process that was no reason to make it the latest.
    else await this.database.query(this.sql.raise, [name, appName, now]);
    return (await this.list(appName))[0];
  }

  /** Another app may call a version of its own `<application>/<version>`: then under a name that nobody would choose. */
  private async registerSecond(row: readonly unknown[]): Promise<void> {
    const [, name, appName] = row as [unknown, string, string];
    if ((await this.database.query(this.sql.registerSecond, [...row, ''])).length > 0) return;
    // Or another process of this app has registered the same version just now.
    if ((await this.list(appName)).some((version) => version.name === name)) return;
    // Not by chance: two processes of this app that come to this at once must meet in the name, and store one row.
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

/** What an application calls the latest of its versions: a scalar subquery. */
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
  // Strictly later than every other, also when two come within one millisecond or a clock stands behind.
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
