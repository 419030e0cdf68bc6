import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import {
  type App,
  context,
  event,
  isHoldfastError,
  type LaunchOptions,
  queue,
  run,
  sleep,
  topic,
  transaction,
  workflow,
} from '../../src/index.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import { witnessTrigger } from '../soak/witness.js';
import { violations } from './invariants.js';
import { Ledger } from './ledger.js';
import { TellingProcess } from './reporting-process.js';
import { isEnded, observe, openRows } from './rows.js';

const letters = topic<number>('letters');
const progress = event<number>('progress');

/** Runs many kinds of workflows while the database fails and comes back, with a ledger of their effects. */
export class Load {
  readonly ledger: Ledger;
  readonly options: Pick<LaunchOptions, 'workflows' | 'queues' | 'name' | 'version'>;
  readonly strays: unknown[] = [];
  /** Errors of calls from outside. */
  readonly told: unknown[] = [];
  effects = 0;
  private readonly started: { readonly id: string; readonly result: Promise<unknown> }[] = [];
  private readonly work;
  private readonly pool: pg.Pool;

  constructor(private readonly database: string) {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-outage-'));
    this.ledger = new Ledger(join(folder, 'ledger.sqlite'));
    this.pool = new pg.Pool({ connectionString: signed(database), max: 3 });
    this.pool.on('error', () => {});
    const stray = (error: unknown): void => void this.strays.push(error);
    process.on('unhandledRejection', stray);
    onTestFinished(async () => {
      process.off('unhandledRejection', stray);
      await this.pool.end();
      this.ledger.close();
      rmSync(folder, { recursive: true });
    });
    const insert = async (tx: pg.PoolClient, id: string): Promise<void> => {
      this.effect('start');
      await tx.query('insert into public.bumps values ($1)', [id]);
      this.effect('end');
    };
    // The application itself must handle a read-only state of its own database.
    const retries = { max: 100, initial: 100, factor: 1 };
    const bump = transaction(pgDatasource(this.pool), 'bump', insert, { retries });
    const child = workflow('child', async () => this.step('in the child'));
    this.work = workflow('work', async (id: string) => {
      await this.step('one');
      await bump(id);
      await sleep(5);
      const grown = await child.with({ id: `${id}/child` })();
      await progress.set(50);
      const letter = await letters.receive({ timeout: '5m' });
      await this.step('two');
      return `${grown} ${letter}`;
    });
    this.options = {
      name: 'test',
      version: 'outage',
      workflows: [this.work, child],
      queues: [queue('jobs', { concurrency: 10 })],
    };
  }

  /** Creates the application's own table, and makes the database check who writes checkpoints. */
  async prepare(): Promise<void> {
    await this.pool.query('create table if not exists public.bumps (id text)');
    await this.pool.query(witnessTrigger);
  }

  /** Starts processes that work on the same queue. */
  async employ(count: number): Promise<void> {
    const options = { ledgerPath: this.ledger.path, database: this.database };
    const workers = Array.from({ length: count }, () => TellingProcess.start('outage-worker.mjs', options));
    for (const worker of await Promise.all(workers)) onTestFinished(() => worker.kill());
  }

  /** Starts one workflow, on a queue or not, and sends it the message that it waits for. */
  async startOne(app: App, n: number): Promise<void> {
    const id = `wf-${n}`;
    const handle = await this.work.with({ id, app, ...(n % 2 === 1 && { queue: 'jobs' }) }).start(id);
    this.ledger.append({ kind: 'ack', workflowId: id, by: 'client' });
    const result = handle.result();
    result.catch(() => {});
    this.started.push({ id, result });
    await this.sendLetter(app, id);
    // If this call fails, its caller gets the error.
    await app.workflows.get(id).catch((error) => this.told.push(error));
  }

  private sendLetter(app: App, id: string): Promise<void> {
    return letters.send(id, Number(id.slice('wf-'.length)), { app, idempotencyKey: id });
  }

  /**
   * Sends every message again, because a lost commit may include a message that its workflow waits for. Messages that
   * arrived are not duplicated.
   */
  async sendLettersAgain(app: App): Promise<void> {
    const tell = (error: unknown): void => void this.told.push(error);
    await Promise.all(this.started.map(({ id }) => this.sendLetter(app, id).catch(tell)));
  }

  /** Keeps a number of workflows running until it is told to stop. `losing some`: workflows may vanish. */
  async keepUp(app: App, done: () => boolean, inFlight = 20, how?: 'losing some'): Promise<void> {
    let n = 0;
    const one = async (): Promise<void> => {
      while (!done()) {
        const mine = n++;
        const ended = this.startOne(app, mine).then(() => this.started.find(({ id }) => id === `wf-${mine}`)?.result);
        await (how ? ended.catch((error) => this.told.push(error)) : ended);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, one));
  }

  /** Records what is certainly committed by now. */
  async observe(): Promise<void> {
    const rows = await openRows(this.database);
    observe(this.ledger, await rows.read('wf-'));
    await rows.close();
  }

  /** Waits for every workflow to end, and returns the violations of I1 to I8. */
  async check(): Promise<{ readonly workflows: number; readonly broken: string[] }> {
    for (const { id, result } of this.started) {
      const detail = JSON.stringify({ status: 'SUCCESS', value: await result });
      this.ledger.append({ kind: 'result', workflowId: id, by: 'client', detail });
    }
    const rows = await openRows(this.database);
    const found = await rows.read('wf-');
    await rows.close();
    const broken = violations({ ...found, entries: this.ledger.entries() });
    const once = async (what: string, sql: string): Promise<void> => {
      for (const { id, n } of (await this.pool.query(sql)).rows) {
        if (Number(n) !== 1) broken.push(`${what}: ${id} ${n} times`);
      }
    };
    const all = "from dbos.workflow_status w where w.name = 'work'";
    await once(
      'I5',
      `select workflow_uuid as id, (select count(*) from public.bumps b where b.id = w.workflow_uuid) as n ${all}`,
    );
    await once(
      'I6',
      `select workflow_uuid as id, (select count(*) from dbos.notifications n where n.destination_uuid = w.workflow_uuid and n.consumed) as n ${all}`,
    );
    for (const row of (await this.pool.query('select * from dbos.soak_intrusions')).rows) {
      broken.push(`I2: process ${row.pid} wrote ${row.workflow_uuid}#${row.function_id} of ${row.executor_id}`);
    }
    for (const error of this.told) if (!isHoldfastError(error)) broken.push(`I7: ${error}`);
    for (const error of this.strays) broken.push(`I7: unhandled ${error}`);
    return { workflows: found.workflows.length, broken };
  }

  /**
   * Checks the record after commits were lost: waits until every recorded workflow has ended, and returns the
   * violations. Earlier observations and acknowledged starts may be missing from the record.
   */
  async checkRecord(): Promise<{ readonly workflows: number; readonly lost: number; readonly broken: string[] }> {
    const rows = await openRows(this.database);
    const all = async () => rows.read('wf-');
    await expect
      .poll(async () => (await all()).workflows.filter((row) => !isEnded(row)), { timeout: 60_000 })
      .toEqual([]);
    const found = await all();
    await rows.close();
    const known = new Set(found.workflows.map((row) => row.workflow_uuid));
    const entries = this.ledger.entries();
    const acked = entries.filter((entry) => entry.kind === 'ack');
    const broken = violations({ ...found, entries: entries.filter(({ kind }) => kind === 'start' || kind === 'end') });
    for (const { workflow_uuid: id, status, error } of found.workflows) {
      if (status !== 'SUCCESS') broken.push(`I4: ${id} is ${status}: ${error}`);
    }
    for (const error of this.told) if (!isHoldfastError(error)) broken.push(`I7: ${error}`);
    for (const error of this.strays) broken.push(`I7: unhandled ${error}`);
    const lost = acked.filter(({ workflowId }) => !known.has(workflowId)).length;
    return { workflows: found.workflows.length, lost, broken };
  }

  private step(name: string): Promise<string> {
    return run(name, async () => {
      this.effect('start');
      await delay(Math.random() * 5);
      this.effect('end');
      return name;
    });
  }

  private effect(kind: 'start' | 'end'): void {
    const { workflowId, stepNumber } = context();
    this.effects++;
    this.ledger.append({ kind, workflowId, stepNumber: stepNumber ?? null, by: 'app' });
  }
}

/** Returns a URL whose sessions name their process: see soak/witness.ts. */
export function signed(database: string): string {
  const url = new URL(database);
  url.searchParams.set('options', `-c soak.pid=${process.pid}`);
  return url.href;
}
