import type { WorkflowStatus } from '../../model/status.js';
import type { EffectfulStep } from '../contract/steps.js';
import type {
  AttemptChange,
  AttemptState,
  CompletedStep,
  NewStep,
  StepRecord,
  StepState,
  Steps,
} from '../contract/storage.js';
import type { Columns, Database, Dialect } from '../database.js';
import { StepAttempts } from './attempts.js';
import { EffectfulSteps } from './effects.js';
import { inLockOrder } from './lock-order.js';
import { afterColumns, predecessorsOnRecord } from './predecessors.js';
import { newStepColumns, stepColumns, toStep } from './rows.js';

type StepId = { readonly workflowId: string; readonly stepNumber: number };

/** The table `operation_outputs`: the records of steps. Every write is fenced by the owner token of the workflow. */
export class SqlSteps implements Steps {
  private readonly sql;
  private readonly effectful: EffectfulSteps;
  private readonly attempts: StepAttempts;

  constructor(private readonly database: Database) {
    this.sql = stepStatements(database.dialect);
    this.effectful = new EffectfulSteps(database);
    this.attempts = new StepAttempts(database);
  }

  recordEffects(appName: string, rows: readonly EffectfulStep[]): Promise<Map<string, boolean>> {
    return this.effectful.record(appName, rows);
  }

  changeAttempts(rows: readonly AttemptChange[]): Promise<Map<string, AttemptState>> {
    return this.attempts.change(rows);
  }

  recordMany(appName: string, rows: readonly NewStep[]): Promise<number> {
    return this.database.write(this.sql.record, [appName], inLockOrder(this.database.dialect, rows, byWorkflow));
  }

  completeMany(rows: readonly CompletedStep[]): Promise<number> {
    return this.database.write(this.sql.complete, [], inLockOrder(this.database.dialect, rows, byWorkflow));
  }

  async states(steps: readonly StepId[]): Promise<StepState[]> {
    const rows = await this.database.batch(this.sql.states, [], steps);
    return rows.map((row) => ({
      workflowId: row.workflow_uuid as string,
      stepNumber: Number(row.step_number),
      owner: row.owner_xid as string | null,
      status: row.status as WorkflowStatus,
      recorded: row.function_id !== null,
      failed: row.error !== null,
      completionSeq: row.completion_seq === null ? null : Number(row.completion_seq),
    }));
  }

  async history(workflowIds: readonly string[]): Promise<StepRecord[]> {
    const rows = await this.database.query(this.sql.history, [this.database.dialect.list(workflowIds)]);
    return rows.map(toStep);
  }
}

function byWorkflow(step: StepId): string {
  return step.workflowId;
}

const completedStepColumns: Columns<CompletedStep> = {
  workflowId: 'text',
  owner: 'text',
  stepNumber: 'int',
  completedAt: 'bigint',
  completionSeq: 'int',
  ...afterColumns,
};

const stepIdColumns: Columns<StepId> = { workflowId: 'text', stepNumber: 'int' };

function stepStatements(d: Dialect) {
  const steps = d.table('operation_outputs');
  return {
    record: {
      name: 'steps.record',
      columns: newStepColumns,
      text: [
        `insert into ${steps} (workflow_uuid, function_id, function_name, output, error, serialization,`,
        'child_workflow_id, started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name)',
        'select r."workflowId", r."stepNumber", r.name, r.output, r.error, r.serialization, r."childWorkflowId",',
        `r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1 from ${d.rows('r', newStepColumns, 2)}`,
        `${d.fence('r."workflowId"', 'r.owner')} where ${predecessorsOnRecord(d)}`,
        'on conflict (workflow_uuid, function_id) do nothing',
      ].join(' '),
    },
    complete: {
      name: 'steps.complete',
      columns: completedStepColumns,
      text: [
        `update ${steps} as o set completion_seq = f."completionSeq", completed_at_epoch_ms = f."completedAt" from (`,
        `select r.* from ${d.rows('r', completedStepColumns, 1)} ${d.fence('r."workflowId"', 'r.owner')}`,
        `where ${predecessorsOnRecord(d)}) as f`,
        'where o.workflow_uuid = f."workflowId" and o.function_id = f."stepNumber" and o.completion_seq is null',
      ].join(' '),
    },
    states: {
      name: 'steps.states',
      reads: true as const,
      shared: true as const,
      columns: stepIdColumns,
      text: [
        'select w.workflow_uuid, r."stepNumber" as step_number, w.owner_xid, w.status, o.function_id, o.error, o.completion_seq',
        `from ${d.rows('r', stepIdColumns, 1)} join ${d.table('workflow_status')} w`,
        'on w.workflow_uuid = r."workflowId" left join',
        `${steps} o on o.workflow_uuid = w.workflow_uuid and o.function_id = r."stepNumber"`,
      ].join(' '),
    },
    history: {
      name: 'steps.history',
      text: `select ${stepColumns} from ${steps} where ${d.anyOf('workflow_uuid', '$1')}`,
    },
  };
}
