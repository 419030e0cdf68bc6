import { randomUUID } from 'node:crypto';
import type { Database, Dialect } from '../database.js';
import type { VersionRecord, Versions } from '../storage.js';

/** The table `application_versions`: which versions of an app have run, and which is the latest. */
export class SqlVersions implements Versions {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = versionStatements(database.dialect);
  }

  async register(params: { name: string; appName: string; now: number }): Promise<void> {
    await this.database.query(this.sql.register, [randomUUID(), params.name, params.appName, params.now]);
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
        `values ($1, $2, $3, ${latestAfter('$4')}, $4) on conflict do nothing`,
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
