import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { isCompleted, isEnded, outcomeOf, type Row } from '../faults/rows.js';
import { rootOf, type SoakEvidence } from './evidence.js';
import type { FileLedger } from './file-ledger.js';

/**
 * Compares the writer of each checkpoint with the owner of the workflow. Every worker sets its pid in a setting of
 * its sessions, and generated executor IDs contain the pid. The trigger runs in the transaction of the checkpoint,
 * which locks the row of the workflow, so the answer is exact.
 */
export const witnessTrigger = `
  create table dbos.soak_intrusions (workflow_uuid text, function_id int, executor_id text, pid text);
  create function dbos.soak_witness() returns trigger language plpgsql as $$
  declare
    writer text := current_setting('soak.pid', true);
    owner text;
  begin
    if coalesce(writer, '') = '' then return null; end if;
    select executor_id into owner from dbos.workflow_status where workflow_uuid = new.workflow_uuid;
    if split_part(owner, ':', 2) is distinct from writer then
      insert into dbos.soak_intrusions values (new.workflow_uuid, new.function_id, owner, writer);
    end if;
    return null;
  end $$;
  create trigger soak_witness after insert or update on dbos.operation_outputs
    for each row execute function dbos.soak_witness()`;

/** The tables whose rows are deleted together with their workflow. */
const archived = ['operation_outputs', 'notifications', 'streams', 'workflow_events'] as const;

/**
 * Keeps the rows that retention deletes, so that the checks cover them too. For each deleted workflow it notes
 * whether the workflow was a child of an unfinished workflow.
 */
export const archiveTriggers = `
  create table dbos.gone_workflow_status (like dbos.workflow_status);
  alter table dbos.gone_workflow_status add column was_needed boolean;
  create function dbos.soak_bury() returns trigger language plpgsql as $$ begin
    insert into dbos.gone_workflow_status select old.*, exists (select 1 from dbos.workflow_status p
      where p.workflow_uuid = old.parent_workflow_id and p.status in ('PENDING', 'ENQUEUED', 'DELAYED'));
    return old;
  end $$;
  create trigger soak_bury before delete on dbos.workflow_status for each row execute function dbos.soak_bury();
  create function dbos.soak_archive() returns trigger language plpgsql as $$ begin
    execute format('insert into dbos.gone_%s select ($1).*', tg_table_name) using old;
    return old;
  end $$;
  ${archived
    .map(
      (table) => `create table dbos.gone_${table} (like dbos.${table});
  create trigger soak_archive before delete on dbos.${table} for each row execute function dbos.soak_archive();`,
    )
    .join('\n  ')}`;

/** Reads the database without the code under test, and records in the ledger what is certainly committed. */
export class Witness {
  private readonly pool: pg.Pool;
  private readonly committed = new Set<string>();
  private readonly outcomes = new Map<string, string>();
  private since = 0;

  constructor(
    database: string,
    private readonly ledger: FileLedger,
  ) {
    this.pool = new pg.Pool({ connectionString: database, max: 3 });
    this.pool.on('error', () => {});
  }

  /** Repeats the query until the server answers, because the server may be down for a moment. */
  async sql(text: string, params: unknown[] = []): Promise<Row[]> {
    for (let failures = 0; ; failures++) {
      try {
        return (await this.pool.query(text, params)).rows as Row[];
      } catch (error) {
        const { code = '' } = error as { code?: string };
        const isMistake = /^(42|22|23)/.test(code);
        if (isMistake || failures > 300) throw error;
        await delay(100);
      }
    }
  }

  async look(): Promise<void> {
    const steps = await this.sql(
      `select o.workflow_uuid, o.function_id, o.function_name, o.completion_seq from dbos.operation_outputs o
       join dbos.workflow_status w using (workflow_uuid) where w.status in ('PENDING', 'ENQUEUED')`,
    );
    for (const step of steps.filter(isCompleted)) {
      const [workflowId, stepNumber] = [String(step.workflow_uuid), Number(step.function_id)];
      const size = this.committed.size;
      if (this.committed.add(`${workflowId}#${stepNumber}`).size === size) continue;
      this.ledger.append({ kind: 'committed', workflowId, stepNumber, by: 'database' });
    }
    const ended = await this.sql('select * from dbos.workflow_status where updated_at >= $1', [this.since]);
    // A transaction that commits late has an earlier instant.
    this.since = Math.max(this.since, ...ended.map((row) => Number(row.updated_at) - 5_000));
    for (const row of ended.filter(isEnded)) {
      const [workflowId, detail] = [String(row.workflow_uuid), outcomeOf(row)];
      if (this.outcomes.get(workflowId) === detail) continue;
      this.outcomes.set(workflowId, detail);
      this.ledger.append({ kind: 'outcome', workflowId, by: 'database', detail });
    }
  }

  async unfinished(version?: string): Promise<number> {
    const active = "select count(*) as n from dbos.workflow_status where status in ('PENDING', 'ENQUEUED', 'DELAYED')";
    const ofVersion = ' and ($1::text is null or application_version = $1)';
    return Number((await this.sql(active + ofVersion, [version ?? null]))[0]?.n);
  }

  /** Forgets what was committed of these families. A restore may have lost it, so it must be observed again. */
  forget(families: ReadonlySet<string>): void {
    const isOf = (key: string): boolean => families.has(rootOf(key.split('#')[0] as string));
    for (const key of [...this.committed]) if (isOf(key)) this.committed.delete(key);
    for (const id of [...this.outcomes.keys()]) if (isOf(id)) this.outcomes.delete(id);
    this.since = 0;
  }

  /** The workflows that an executor runs, according to the table. */
  async owned(executorId: string): Promise<Row[]> {
    const running =
      "select workflow_uuid, owner_xid from dbos.workflow_status where status = 'PENDING' and executor_id = $1";
    return this.sql(running, [executorId]);
  }

  /** The number of these workflows that now belong to another executor, or wait for one. */
  async taken(owned: readonly Row[]): Promise<number> {
    const now = await this.sql(
      'select workflow_uuid, owner_xid, status from dbos.workflow_status where workflow_uuid = any($1)',
      [owned.map((row) => row.workflow_uuid)],
    );
    const before = new Map(owned.map((row) => [row.workflow_uuid, row.owner_xid]));
    return now.filter((row) => row.owner_xid !== before.get(row.workflow_uuid)).length;
  }

  async evidence(peaks: SoakEvidence['peaks']): Promise<SoakEvidence> {
    const all = (table: string) => this.sql(`select * from ${table}`);
    const everHad = async (table: (typeof archived)[number]) => [
      ...(await all(`dbos.${table}`)),
      ...(await all(`dbos.gone_${table}`)),
    ];
    const gone = await all('dbos.gone_workflow_status');
    return {
      workflows: [...(await all('dbos.workflow_status')), ...gone],
      gone,
      steps: await everHad('operation_outputs'),
      messages: await everHad('notifications'),
      streams: await everHad('streams'),
      events: await everHad('workflow_events'),
      counters: await all('public.counters'),
      intrusions: await all('dbos.soak_intrusions'),
      peaks,
      entries: this.ledger.entries(),
    };
  }

  close(): Promise<void> {
    return this.pool.end();
  }
}
