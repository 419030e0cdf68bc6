import { openSqlite, type TestSqlite } from '../../../../test-support/sqlite.mjs';

/**
 * The ledger: a separate SQLite database into which no test injects faults. Code under test appends to it
 * synchronously, so an entry survives a SIGKILL right after it. Observers append what they saw. The entries are in the
 * order in which things happened.
 *
 * - `start`, `end`: a step's body began, ended.
 * - `committed`: the step's checkpoint is certainly in the database by now.
 * - `ack`: the start of the workflow was acknowledged to a client.
 * - `outcome`: the workflow's row, read by an observer after the workflow ended.
 * - `result`: the value of `handle.result()` for an observer.
 * - anything else: a mark for one test, such as a `catch` that ran.
 *
 * fixtures/ledger.mjs writes the same table from child processes.
 */
export interface Entry {
  readonly seq: number;
  readonly kind: string;
  readonly workflowId: string;
  readonly stepNumber: number | null;
  /** The process that appended the entry: an executor, or a named observer. */
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
    // The writes of a killed process stay with the operating system. Only a power cut would need more.
    this.db.pragma('synchronous = OFF');
    this.db.exec(schema);
    this.db.exec('create index if not exists by_workflow on entries (workflow_id)');
  }

  append(entry: NewEntry): void {
    this.db
      .prepare('insert into entries (kind, workflow_id, step_number, by, detail) values (?, ?, ?, ?, ?)')
      .run(entry.kind, entry.workflowId, entry.stepNumber ?? null, entry.by, entry.detail ?? null);
  }

  /** The entries of the workflows whose ID has this prefix, in order. */
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
