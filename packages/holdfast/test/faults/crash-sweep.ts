import { copyFile } from 'node:fs/promises';
import { sqliteFile } from '../../../../test-support/sqlite.mjs';
import { type CrashPoint, crashPhases, testApp } from '../../src/testing/index.js';
import { silent } from '../support/backends.js';
import { runFixture } from './child-process.js';
import { violations } from './invariants.js';
import type { Ledger } from './ledger.js';
import { observe, openRows, type RowReader } from './rows.js';

/** One workflow, the points at which its processes are killed one after the other, and a clean finish. */
export interface CrashCase {
  readonly workflow: string;
  readonly points: readonly SweepPoint[];
}

/** The clock that counts the statements: the app's own, or another clock of the fixture. */
export type SweepPoint = CrashPoint & { readonly clock?: string };

/** The subject of a sweep: a fixture, and the kind of ledger entry that holds the outcome of its run. */
export interface Program {
  readonly fixture: string;
  readonly outcome: string;
  /** What a case needs besides the app's database. */
  besides?(database: string): Promise<Pick<Job, 'apart'>>;
  /** What else must be true of a store when a case is over. */
  check?(job: Job): Promise<string[]>;
}

/** The result of a sweep. A case is void if not all its faults landed, because it proves nothing. */
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

/**
 * A store with its schema in place. On SQLite each case gets a copy of a file; on Postgres all cases share a database.
 */
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
 * Runs cases one after the other. Each process is new. It first finishes what the killed process before it left
 * behind, as the same executor on the same database. Then it begins the next case, in which it is killed.
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

  /** Kills at each point of the case; the next process finishes the rest. Returns true if all kills landed. */
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

  /** Runs without a fault. Returns the statements of the run and its outcome. */
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
 * Every statement in every phase. The last statement of a run writes the workflow's outcome. Nothing is handed to the
 * workflow's code after it, so it has no `before-resolve` phase.
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

/** Workflows get their own ID as input and return it, so the results of two runs differ only in the ID. */
function withoutId(result: string | null | undefined, job: Job): string {
  return String(result).replaceAll(job.workflowId, 'ID');
}
