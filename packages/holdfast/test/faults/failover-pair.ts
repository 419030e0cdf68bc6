import pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import { flagsOf, startOwnPostgres } from './own-postgres.js';
import { type FaultProxy, openProxy } from './proxy.js';
import { placesOf, standbyName, startReadOnly, startStandby } from './standby-postgres.js';

/** A primary, a standby that follows it, and an address that leads to one of them. */
export interface FailoverPair {
  readonly address: FaultProxy;
  readonly primaryUrl: string;
  readonly standbyUrl: string;
  /** Crashes the primary at once. */
  crash(): Promise<void>;
  /** Starts a read-only server on the files of the crashed primary. The address leads to that server. */
  returnReadOnly(): Promise<string>;
  /** Cuts the standby off from the primary, which continues. */
  cutOff(): Promise<void>;
  /** Promotes the standby. This does not move the address. */
  promote(): Promise<void>;
}

const settings = {
  fsync: 'off',
  max_connections: 40,
  shared_buffers: '16MB',
  max_wal_size: '64MB',
  wal_level: 'replica',
};

/** `synchronous`: the primary acknowledges no commit that the standby does not have. */
export async function startPair(synchronous: boolean): Promise<FailoverPair> {
  const primary = await startOwnPostgres(settings);
  const toStop: (() => Promise<unknown>)[] = [() => primary.stop()];
  onTestFinished(async () => {
    for (const stop of toStop.reverse()) await stop();
  });
  const standby = await startStandby(primary.url, flagsOf(settings));
  toStop.push(() => standby.stop());
  const places = await as(primary.url, placesOf);
  const reconfigure = (name: string, value: string): Promise<void> =>
    as(primary.url, async (admin) => {
      await admin.query(`alter system set ${name} = '${value}'`);
      await admin.query('select pg_reload_conf()');
    });
  if (synchronous) await reconfigure('synchronous_standby_names', standbyName);
  const address = await openProxy(primary.url);
  toStop.push(() => address.close());
  return {
    address,
    primaryUrl: primary.url,
    standbyUrl: standby.url,
    crash: () => primary.crash(),
    returnReadOnly: async () => {
      const old = await startReadOnly(places.bin, places.source, flagsOf(settings));
      toStop.push(() => old.stop());
      address.moveTo(old.url);
      return old.url;
    },
    cutOff: async () => {
      await as(standby.url, async (admin) => {
        await admin.query(`alter system set primary_conninfo = ''`);
        await admin.query('select pg_reload_conf()');
      });
      const followers = () => as(primary.url, (admin) => admin.query('select 1 from pg_stat_replication'));
      await expect.poll(async () => (await followers()).rows, { timeout: 30_000 }).toEqual([]);
    },
    promote: () => standby.promote(),
  };
}

/** Runs a function with an administrator connection to this server. */
export async function as<T>(url: string, work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client(url);
  admin.on('error', () => {});
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.end();
  }
}
