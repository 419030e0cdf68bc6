import { randomUUID } from 'node:crypto';
import type { Database, Dialect } from '../database.js';
import type { VersionRecord, Versions } from '../storage.js';

/** The table `application_versions`: which versions of an app have run, and which is the latest. */
export class SqlVersions implements Versions {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = versionStatements(database.dialect);
  }

  async register(params: { name: string; appName: string; asLatest?: boolean; now: number }): Promise<void> {
    const { name, appName, asLatest = true, now } = params;
    await this.database.query(this.sql.register, [randomUUID(), name, appName, now, asLatest]);
    // Registered before, by a process that was no reason to.
    if (asLatest) await this.database.query(this.sql.raise, [name, appName, now]);
  }

  async apps(): Promise<string[]> {
    return (await this.database.query(this.sql.apps, [])).map((row) => row.application_name as string);
  }

  async list(appName: string): Promise<VersionRecord[]> {
    const rows = await this.database.query(this.sql.list, [appName]);
    return rows.map((row) => ({
      name: row.version_name as string,
      createdAt: Number(row.created_at),
      latestAt: Number(row.version_timestamp),
    }));
  }

  async setLatest(params: { name: string; appName: string; now: number }): Promise<boolean> {
    return (await this.database.query(this.sql.setLatest, [params.name, params.appName, params.now])).length > 0;
  }
}

function versionStatements(d: Dialect) {
  const versions = d.table('application_versions');
  // Strictly later than every other, also when two come within one millisecond or a clock stands behind.
  const latestAfter = (now: string) =>
    `(select case when max(version_timestamp) >= cast(${now} as bigint) then max(version_timestamp) + 1 ` +
    `else cast(${now} as bigint) end from ${versions})`;
  return {
    register: {
      name: 'versions.register',
      text:
        `insert into ${versions} (version_id, version_name, application_name, version_timestamp, created_at) ` +
        `values ($1, $2, $3, case when cast($5 as boolean) then ${latestAfter('$4')} else 0 end, $4) ` +
        'on conflict do nothing',
    },
    raise: {
      name: 'versions.raise',
      text:
        `update ${versions} set version_timestamp = ${latestAfter('$3')} where version_name = $1 ` +
        'and (application_name is null or application_name = $2) and version_timestamp = 0',
    },
    apps: {
      name: 'versions.apps',
      text: `select distinct application_name from ${versions} where application_name is not null`,
    },
    list: {
      name: 'versions.list',
      text:
        `select version_name, created_at, version_timestamp from ${versions} ` +
        'where application_name is null or application_name = $1 order by version_timestamp desc, created_at desc',
    },
    setLatest: {
      name: 'versions.setLatest',
      text:
        `update ${versions} set version_timestamp = ${latestAfter('$3')} ` +
        'where version_name = $1 and (application_name is null or application_name = $2) returning version_name',
    },
  };
}
