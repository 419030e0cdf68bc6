import { copyFile } from 'node:fs/promises';
import { sqliteFile } from '../../../../test-support/sqlite.mjs';
import { type CrashPoint, crashPhases, testApp } from '../../src/testing/index.js';
import { silent } from '../support/backends.js';
import { runFixture } from './child-process.js';
import { violations } from './invariants.js';
import type { Ledger } from './ledger.js';
import { observe, openRows, type RowReader } from './rows.js';

/** One workflow, the points at which the processes that run it are killed one after the other, and a clean finish. */
export interface CrashCase {
  readonly workflow: string;
  readonly points: readonly SweepPoint[];
}

/** Counted by the app's own clock, or by another one that the fixture has. */
export type SweepPoint = CrashPoint & { readonly clock?: string };

/** What is taken apart: a fixture, and the kind of the ledger's entry that says what its run came to. */
export interface Program {
  readonly fixture: string;
  readonly outcome: string;
  /** What a case needs beside the app's database. */
  besides?(database: string): Promise<Pick<Job, 'apart'>>;
  /** What else must be true of a store when a case is over. */
  check?(job: Job): Promise<string[]>;
}

/** How a sweep went. A case whose faults did not all land proves nothing: it is void. */
export interface Tally {
  kills: number;
  readonly landed: CrashCase[];
  readonly void: CrashCase[];
  readonly violations: string[];
}

export function emptyTally(): Tally {
  return { kills: 0, landed: [], void: [], violations: [] };
}

export interface Job {
  readonly database: string;
  readonly executorId: string;
  readonly workflow: string;
  readonly workflowId: string;
  /** A database of the user's own. */
  readonly apart?: string;
  readonly crashAt?: string;
}

interface Underway {
  readonly crashCase: CrashCase;
  readonly job: Job;
}

/** A store whose schema is in place: SQLite gets a copy of a file for each case, Postgres one database for all. */
export class Stores {
  private made = 0;
  private template: string | undefined;

  constructor(private readonly newDatabase: () => Promise<string>) {}

  async create(): Promise<string> {
    this.template ??= await this.migrated();
    if (!this.template.startsWith('sqlite')) return this.template;
    const copy = this.template.replace(/\.sqlite$/, `-${this.made++}.sqlite`);
    await copyFile(sqliteFile(this.template), sqliteFile(copy));
    return copy;
  }

  private async migrated(): Promise<string> {
    const database = await this.newDatabase();
    await (await testApp({ database, logger: silent, version: 'faults' })).stop();
    return database;
  }
}

/**
 * Runs cases one after the other. Each process is a fresh one: it first finishes what the process killed before it
 * left behind, as the same executor on the same database, and then begins the next case, in which it is killed.
 */
export class Lane {
  private static cases = 0;
  private leftover: Underway | undefined;

  constructor(
    private readonly program: Program,
    private readonly stores: Pick<Stores, 'create'>,
    private readonly ledger: Ledger,
    private readonly expected: ReadonlyMap<string, string>,
    private readonly tally: Tally,
  ) {}

  /** Kills at each of the case's points; what remains is finished by the next process. Returns whether all landed. */
  async run(crashCase: CrashCase): Promise<boolean> {
    const job = await this.newJob(crashCase.workflow);
    for (const point of crashCase.points) {
      const exit = await this.next({ ...job, crashAt: textOf(point) });
      if (exit.signal !== 'SIGKILL') {
        this.tally.void.push(crashCase);
        return false;
      }
      this.tally.kills++;
      await this.withRows(job, async (rows) => observe(this.ledger, await rows.read(job.workflowId)));
    }
    this.leftover = { crashCase, job };
    return true;
  }

  /** Finishes the last case. */
  async end(): Promise<void> {
    if (this.leftover) await this.next();
  }

  /** A run without a fault: how many statements it makes, and what it comes to. */
  async clean(workflow: string): Promise<{ statements: string[]; result: string }> {
    const job = await this.newJob(workflow);
    const exit = await this.next(job);
    return { statements: JSON.parse(exit.output) as string[], result: this.outcomeOf(job) };
  }

  private outcomeOf(job: Job): string {
    const entry = this.ledger.entries(job.workflowId).find(({ kind }) => kind === this.program.outcome);
    return withoutId(entry?.detail, job);
  }

  private async newJob(workflow: string): Promise<Job> {
    const name = `case-${String(Lane.cases++).padStart(5, '0')}`;
    const database = await this.stores.create();
    return { database, executorId: name, workflow, workflowId: name, ...(await this.program.besides?.(database)) };
  }

  private async next(job?: Job) {
    const finished = this.leftover;
    this.leftover = undefined;
    const jobs = [...(finished ? [finished.job] : []), ...(job ? [job] : [])];
    const exit = await runFixture(this.program.fixture, { ledgerPath: this.ledger.path, jobs });
    if (finished) await this.check(finished);
    return exit;
  }

  private async check({ crashCase, job }: Underway): Promise<void> {
    const rows = await this.withRows(job, (reader) => reader.read(job.workflowId));
    const entries = this.ledger.entries(job.workflowId);
    const found = [...violations({ ...rows, entries }), ...((await this.program.check?.(job)) ?? [])];
    const got = this.outcomeOf(job);
    const wanted = this.expected.get(job.workflow);
    if (got !== wanted) found.push(`the result is ${got}, and of a clean run ${wanted}`);
    this.tally.landed.push(crashCase);
    this.tally.violations.push(...found.map((each) => `${describeCase(crashCase)}: ${each}`));
  }

  private async withRows<R>(job: Job, use: (rows: RowReader) => Promise<R>): Promise<R> {
    const rows = await openRows(job.database);
    try {
      return await use(rows);
    } finally {
      await rows.close();
    }
  }
}

/**
 * Every statement and phase. The last statement of a run writes the workflow's outcome; nothing is handed to the
 * workflow's code after it, so it has no `before-resolve`.
 */
export function everyPoint(statements: number): CrashPoint[] {
  return crashPhases.flatMap((phase) =>
    Array.from({ length: phase === 'before-resolve' ? statements - 1 : statements }, (_, i) => ({
      statement: i + 1,
      phase,
    })),
  );
}

function describeCase({ workflow, points }: CrashCase): string {
  return `${workflow} killed at ${points.map(textOf).join(' and ')}`;
}

function textOf({ clock, statement, phase }: SweepPoint): string {
  return `${clock === undefined ? '' : `${clock} `}${statement}:${phase}`;
}

/** Workflows get their own ID as input and return it, so that results of two runs differ in that alone. */
function withoutId(result: string | null | undefined, job: Job): string {
  return String(result).replaceAll(job.workflowId, 'ID');
}
