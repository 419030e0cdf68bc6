import { onTestFinished } from 'vitest';
import { newToken } from '../../src/engine/wait/work-signals.js';
import { rankAmong } from '../../src/queues/places.js';
import type { EnqueuedWorkflow } from '../../src/storage/contract/storage.js';
import { openStorage } from '../../src/storage/open.js';
import { enqueued } from '../storage/queue-support.js';
import { silent } from './backends.js';
import { tamper } from './faults.js';

/** Returns the incarnation of each executor of a database, by executor ID. */
export async function incarnationsOf(database: string): Promise<ReadonlyMap<string, string>> {
  const rows = await tamper(database, 'select executor_id, incarnation from executors');
  return new Map(rows.map((row) => [row.executor_id as string, row.incarnation as string]));
}

/** Finds a token that ranks these executors first among all, in this order. */
export function tokenFor(first: readonly string[], all: ReadonlyMap<string, string>): number {
  const placeOf = (token: number, executorId: string): number => {
    const incarnation = all.get(executorId) ?? '';
    if (incarnation === '') throw new Error(`There is no executor ${executorId}.`);
    const others = [...all.values()].filter((each) => each !== incarnation);
    return rankAmong({ owners: { incarnation } } as never, token, others);
  };
  for (let tries = 0; tries < 1_000_000; tries++) {
    const token = newToken();
    if (first.every((each, place) => placeOf(token, each) === place)) return token;
  }
  throw new Error(`No token puts ${first.join(', ')} first.`);
}

/** Puts work on queue `q` of the test app and sends no notification. */
export async function enqueueUnheard(database: string, ids: readonly string[], more: Partial<EnqueuedWorkflow> = {}) {
  const storage = await openStorage({
    ...{ url: database, schema: 'dbos', migrate: false, logger: silent, applicationName: 'test' },
  });
  const row = { name: 'staged', appName: 'test', version: 'v', queueName: 'q', ...more };
  const inputs = (id: string): string => JSON.stringify({ json: [id], __dbos_serializer: 'superjson' });
  await storage.queues.enqueueMany(ids.map((id) => enqueued(id, { ...row, inputs: inputs(id) })));
  await storage.close();
}

/** Sends the notification that a process would send. */
export async function announce(database: string, payload: object): Promise<void> {
  const text = JSON.stringify({ from: 'test', ...payload }).replaceAll("'", "''");
  await tamper(database, `select pg_notify('holdfast_dbos', '${text}')`);
}

export async function call(database: string, token: number, wanted = 1, caller = ''): Promise<void> {
  await announce(database, { topics: ['queue:q'], notes: [`queue:q\n${JSON.stringify([[token, wanted, caller]])}`] });
}

/** Collects every notification that processes send from now on. */
export async function listenTo(database: string): Promise<string[]> {
  const { default: pg } = await import('pg');
  const heard: string[] = [];
  const client = new pg.Client(database);
  await client.connect();
  client.on('notification', ({ payload = '' }) => heard.push(payload));
  await client.query('listen holdfast_dbos');
  onTestFinished(() => client.end());
  return heard;
}
