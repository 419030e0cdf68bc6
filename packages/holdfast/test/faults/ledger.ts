import { openSqlite, type TestSqlite } from '../../../../test-support/sqlite.mjs';

/**
 * The ledger: a SQLite database of its own that no test ever faults. Code under test appends to it synchronously, so
 * an entry survives the SIGKILL that comes right after it; observers append what they saw. The order of the entries
 * is the order in which things happened.
 *
 * - `start`, `end`: a step's body began, ended.
 * - `committed`: the step's checkpoint is certainly in the database by now.
 * - `ack`: a client was told that the workflow is started.
 * - `outcome`: how the workflow's row looked to someone who found it ended.
 * - `result`: what `handle.result()` gave to an observer.
 * - anything else: a mark that one test is after, such as a `catch` that ran.
 *
 * fixtures/ledger.mjs writes the same table from child processes.
 */
export interface Entry {
  readonly seq: number;
  readonly kind: string;
  readonly workflowId: string;
  readonly stepNumber: number | null;
  /** Who appended it: an executor, or an observer by name. */
  readonly by: string;
  readonly detail: string | null;
}

export type NewEntry = Pick<Entry, 'kind' | 'workflowId' | 'by'> & Partial<Pick<Entry, 'stepNumber' | 'detail'>>;

const schema =
  'create table if not exists entries (seq integer primary key autoincrement, kind text not null, ' +
  'workflow_id text not null, step_number integer, by text not null, detail text)';

export class Ledger {
  private readonly db: TestSqlite;

  constructor(readonly path: string) {
    this.db = openSqlite(path, { timeout: 10_000 });
    this.db.pragma('journal_mode = WAL');
    // A killed process leaves its writes with the system; only a power cut would need more.
    this.db.pragma('synchronous = OFF');
    this.db.exec(schema);
    this.db.exec('create index if not exists by_workflow on entries (workflow_id)');
  }

  append(entry: NewEntry): void {
    this.db
      .prepare('insert into entries (kind, workflow_id, step_number, by, detail) values (?, ?, ?, ?, ?)')
      .run(entry.kind, entry.workflowId, entry.stepNumber ?? null, entry.by, entry.detail ?? null);
  }

  /** The entries of the workflows whose ID begins like this, in order. */
  entries(idPrefix = ''): Entry[] {
    const rows = this.db
      .prepare(
        'select seq, kind, workflow_id as "workflowId", step_number as "stepNumber", by, detail from entries ' +
          'where workflow_id >= ? and workflow_id < ? order by seq',
      )
      .all(idPrefix, `${idPrefix}\u{10ffff}`);
    return rows as Entry[];
  }

  close(): void {
    this.db.close();
  }
}
