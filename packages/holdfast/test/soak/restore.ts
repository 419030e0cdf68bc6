import type pg from 'pg';
import { isCompleted, isEnded, type Row } from '../faults/rows.js';
import { backUpPostgres, type PostgresBackup } from '../support/time-machine.js';
import { rootOf, type SoakEvidence } from './evidence.js';
import type { FileLedger } from './file-ledger.js';

/** What a restore has undone. It is written to the ledger at a moment when no process can write to the database. */
export interface Undone {
  /**
   * Families of workflows that the backup lacks in part. Observations of these families before the restore do not
   * count.
   */
  readonly families: readonly string[];
  /** Steps of these families that the backup has (`workflow#step`). They must not begin again. */
  readonly kept: readonly string[];
}

/** Tables of the programs in the same database. Their transactions commit together with the record. */
const ofPrograms = ['public.counters'];

const maxTries = 20;

/** An answer from before the restore may be noted this much later. */
const lateMs = 1_000;

/** Makes a backup of the whole database, and restores it in the middle of the run. */
export class Restore {
  private backup: PostgresBackup | undefined;

  constructor(
    private readonly database: string,
    private readonly ledger: FileLedger,
  ) {}

  async save(): Promise<void> {
    this.backup = await persistently(() => backUpPostgres(this.database, ofPrograms));
  }

  async putBack(): Promise<Undone> {
    return persistently(async () => {
      let undone: Undone = { families: [], kept: [] };
      await this.backup?.restore(async (client, saved) => {
        undone = await whatIsUndone(client, saved);
        this.note(undone);
      });
      await new Promise((resolve) => setTimeout(resolve, lateMs));
      this.note(undone);
      return undone;
    });
  }

  private note(undone: Undone): void {
    this.ledger.append({ kind: 'restored', workflowId: '', by: 'fleet', detail: JSON.stringify(undone) });
  }
}

/** Retries the work, because the server may crash during it, and locking all tables may lead to a deadlock. */
async function persistently<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === maxTries) throw error;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}

async function whatIsUndone(client: pg.Client, saved: string): Promise<Undone> {
  const workflowsOf = async (schema: string): Promise<Row[]> => {
    const of = 'select workflow_uuid, status, output, error, completed_at from';
    const all = `${of} ${schema}.workflow_status union all ${of} ${schema}.gone_workflow_status`;
    return (await client.query(all)).rows as Row[];
  };
  const rowsOf = (rows: readonly Row[]) => new Map(rows.map((row) => [String(row.workflow_uuid), row]));
  const [now, then] = [rowsOf(await workflowsOf('dbos')), rowsOf(await workflowsOf(saved))];
  const isSame = (row: Row): boolean => {
    const before = then.get(String(row.workflow_uuid));
    return before !== undefined && isEnded(before) && JSON.stringify(before) === JSON.stringify(row);
  };
  const families = new Set(
    [...now.values()].filter((row) => !isSame(row)).map((row) => rootOf(String(row.workflow_uuid))),
  );
  const steps = await client.query(
    `select workflow_uuid, function_id, function_name, completion_seq from ${saved}.operation_outputs`,
  );
  const kept = (steps.rows as Row[])
    .filter((step) => isCompleted(step) && families.has(rootOf(String(step.workflow_uuid))))
    .map((step) => `${step.workflow_uuid}#${step.function_id}`);
  return { families: [...families], kept };
}

/** The kinds of observations. Those of an undone workflow were correct at their time. */
const told = new Set(['ack', 'outcome', 'result', 'sent', 'read', 'committed']);

/**
 * Returns the evidence without the observations of undone families before the restore. The recorded steps of these
 * families count as committed at the restore, so a step that begins after it is a violation if it is recorded.
 */
export function withoutUndone(evidence: SoakEvidence): SoakEvidence {
  const entries: SoakEvidence['entries'][number][] = [];
  const undone = new Set<string>();
  for (const entry of evidence.entries) {
    if (entry.kind !== 'restored') {
      // The process learned this before the restore, and notes it only now. The database reports what is committed.
      const isLate = entry.kind === 'committed' && entry.by !== 'database' && undone.has(rootOf(entry.workflowId));
      if (!isLate) entries.push(entry);
      continue;
    }
    const { families, kept } = JSON.parse(String(entry.detail)) as Undone;
    for (const family of families) undone.add(family);
    // Entries are added one by one: a soak of 20 minutes has more entries than a call can take arguments.
    for (const before of entries.splice(0)) {
      if (!told.has(before.kind) || !undone.has(rootOf(before.workflowId))) entries.push(before);
    }
    for (const step of kept) {
      const [workflowId = '', stepNumber] = step.split('#');
      entries.push({ ...entry, kind: 'committed', workflowId, stepNumber: Number(stepNumber), detail: null });
    }
  }
  return { ...evidence, entries, undone };
}
