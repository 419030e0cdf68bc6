import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import type { SeededRandom } from '../../src/model/ids.js';
import { fixturePath } from './child-process.js';
import type { Ledger } from './ledger.js';
import type { Gauge } from './queue-gauge.js';

/** Worker processes on one database. Some of them are killed now and then, and replaced. */
export class Fleet {
  kills = 0;
  private readonly workers = new Set<Worker>();

  constructor(
    private readonly database: string,
    private readonly ledger: Ledger,
    private readonly gauge: Gauge,
    private readonly random: SeededRandom,
    private readonly options: object = {},
  ) {}

  async start(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.spawn()));
  }

  /** Kills one worker after the other while it has work, and replaces each, until it is told to stop. */
  async killUntil(done: () => boolean, pauseMs: { least: number; most: number }): Promise<void> {
    while (!done()) {
      await delay(pauseMs.least + this.random.number() * (pauseMs.most - pauseMs.least));
      const living = [...this.workers];
      const victim = living[Math.floor(this.random.number() * living.length)];
      if (!victim || !(await this.standsStillAtWork(victim, done))) continue;
      await this.kill(victim);
      await this.spawn();
    }
  }

  /**
   * Stops the worker while it has work, or gives up if all work is done first. A stopped worker cannot finish its work
   * between the query and the kill. Without the stop, kills in a fast fleet might never hit any work. The worker must
   * not be stopped while it writes to the ledger, because its death could then not be recorded first.
   */
  private async standsStillAtWork(worker: Worker, done: () => boolean): Promise<boolean> {
    while (!done()) {
      await worker.pause();
      const [busy] = await this.gauge.sql(
        `select 1 from workflow_status where status = 'PENDING' and executor_id like '%:${worker.pid}:%' limit 1`,
      );
      if (busy && isNobodyWritingTo(this.ledger.path)) return true;
      worker.goOn();
      await delay(1);
    }
    return false;
  }

  async stop(): Promise<void> {
    await Promise.all([...this.workers].map((worker) => worker.stop()));
  }

  async killAll(): Promise<void> {
    await Promise.all([...this.workers].map((worker) => worker.kill()));
  }

  private async kill(victim: Worker): Promise<void> {
    this.workers.delete(victim);
    this.ledger.append({ kind: 'killed', workflowId: '', by: 'fleet', detail: victim.name });
    await victim.kill();
    this.kills++;
    // The steps recorded by now must not be run again by another worker.
    const recorded = await this.gauge.sql(
      `select o.workflow_uuid as id, o.function_id as step from operation_outputs o join workflow_status w
       on w.workflow_uuid = o.workflow_uuid where w.status in ('PENDING', 'ENQUEUED')`,
    );
    for (const { id, step } of recorded) {
      this.ledger.append({ kind: 'committed', workflowId: String(id), stepNumber: Number(step), by: 'database' });
    }
  }

  private async spawn(): Promise<void> {
    this.workers.add(
      await Worker.start({ ledgerPath: this.ledger.path, database: this.database, stepMs: 2, ...this.options }),
    );
  }
}

/** One process of a fixture that reports when it is ready, and exits on request. */
export class Worker {
  private complaints = '';
  readonly ended: Promise<void>;

  static async start(options: object, fixture = 'queue-fleet-worker.mjs'): Promise<Worker> {
    const child = fork(fixturePath(fixture), [JSON.stringify(options)], {
      execArgv: [],
      stdio: 'pipe',
    });
    const worker = new Worker(child);
    const ready = new Promise<void>((resolve) => child.once('message', () => resolve()));
    await Promise.race([ready, worker.ended]);
    if (child.exitCode !== null) throw new Error(`A worker did not start: ${worker.complaints}`);
    return worker;
  }

  private constructor(private readonly child: ChildProcess) {
    child.stderr?.on('data', (chunk: Buffer) => {
      this.complaints += chunk;
    });
    this.ended = new Promise((resolve) => child.once('exit', () => resolve()));
  }

  /** The name of the worker in the ledger. */
  get name(): string {
    return `process ${this.pid}`;
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  /** Asks the worker to exit, and expects success. */
  async stop(): Promise<void> {
    if (this.child.connected) this.child.send({ command: 'stop' });
    await this.ended;
    if (this.child.exitCode !== 0 || this.complaints) throw new Error(`A worker ended badly: ${this.complaints}`);
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** Stops the process, like a process on a suspended host, until `goOn`. */
  async pause(): Promise<void> {
    this.child.kill('SIGSTOP');
    const state = (): string | undefined => readFileSync(`/proc/${this.child.pid}/stat`, 'utf8').split(') ')[1]?.[0];
    while (state() !== 'T') await new Promise((resolve) => setImmediate(resolve));
  }

  goOn(): void {
    this.child.kill('SIGCONT');
  }

  /** Takes over the work of another executor that is believed dead. Returns the IDs of the workflows. */
  async recover(executorId: string): Promise<string[]> {
    const recovered = new Promise<string[]>((resolve) => {
      this.child.once('message', (message) => resolve((message as { workflowIds: string[] }).workflowIds));
    });
    this.child.send({ command: 'recover', from: executorId });
    return Promise.race([recovered, this.ended.then(() => Promise.reject(new Error(this.complaints)))]);
  }
}

/**
 * Returns true if no process writes to the SQLite file. A process stopped in the middle of a write blocks all others.
 */
export function isNobodyWritingTo(path: string): boolean {
  const db = openSqlite(path, { timeout: 50 });
  try {
    db.exec('begin immediate; rollback');
    return true;
  } catch {
    return false;
  } finally {
    db.close();
  }
}
