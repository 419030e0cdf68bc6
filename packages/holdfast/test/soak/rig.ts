import { join } from 'node:path';
import pg from 'pg';
import { connect, type Logger, launch, queue } from '../../src/index.js';
import { type FaultProxy, openProxy } from '../faults/proxy.js';
import { type Gauge, installGauge, openGauge } from '../faults/queue-gauge.js';
import { FileLedger } from './file-ledger.js';
import { SoakFleet } from './fleet.js';
import { queueLimits } from './jobs.js';
import type { Observer } from './traffic.js';
import { archiveTriggers, Witness, witnessTrigger } from './witness.js';

/** The number of workers that reach the database through the proxy. One client uses it too. */
const proxied = 2;

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** The parts of a soak, except for the faults. */
export interface Rig {
  readonly database: string;
  readonly ledger: FileLedger;
  readonly witness: Witness;
  readonly proxy: FaultProxy;
  readonly fleet: SoakFleet;
  readonly clients: readonly Observer[];
  readonly operatorClient: Observer;
  /** The log of the workers. */
  readonly logPath: string;
  close(): Promise<void>;
}

export async function openRig(serverUrl: string, folder: string, workers: number): Promise<Rig> {
  const database = await createDatabase(serverUrl);
  const ledger = new FileLedger(join(folder, 'ledger.jsonl'));
  await prepare(database);
  const witness = new Witness(database, ledger);
  const proxy = await openProxy(database);
  const open = async (name: string, url = database): Promise<Observer> => ({
    name,
    client: await connect({ name: 'soak', database: url, logger: silent }),
  });
  const operatorClient = await open('operator');
  const clients = [await open('client 1'), await open('client 2'), await open('client 3', proxy.url)];
  const databaseOf = (slot: number): string => (slot < proxied ? proxy.url : database);
  const logPath = join(folder, 'workers.log');
  const fleet = new SoakFleet({ ledger, logPath, databaseOf }, workers, 'v1');
  const close = async (): Promise<void> => {
    for (const { client } of [operatorClient, ...clients]) await client.close();
    await witness.close();
    await proxy.close();
    ledger.close();
  };
  return { database, ledger, witness, proxy, fleet, clients, operatorClient, logPath, close };
}

async function createDatabase(serverUrl: string): Promise<string> {
  const admin = new pg.Client(serverUrl);
  admin.on('error', () => {});
  await admin.connect();
  await admin.query('create database soak');
  await admin.end();
  const url = new URL(serverUrl);
  url.pathname = '/soak';
  return url.href;
}

/** Creates the tables and the queues, and installs the triggers that watch them. */
async function prepare(database: string): Promise<void> {
  const { limited, parted, changing, shared } = queueLimits;
  const queues = [
    queue('limited', limited),
    queue('parted', { partition: parted }),
    queue('changing', changing),
    queue('shared', shared),
  ];
  const app = await launch({ name: 'soak', version: 'v0', database, queues, logger: silent });
  await app.shutdown();
  const gauge = await installGauge(database);
  await gauge.run(witnessTrigger);
  await gauge.run(archiveTriggers);
  await gauge.run('create table public.counters (id text primary key, n int not null)');
  await gauge.close();
}

/** The most workflows that were PENDING at once, by queue and by partition. */
export async function peaksOf(database: string): ReturnType<Gauge['peaks']> {
  const gauge = await openGauge(database);
  try {
    return await gauge.peaks();
  } finally {
    await gauge.close();
  }
}
