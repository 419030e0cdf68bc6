import type { WorkflowStatus } from '../../model/status.js';
import type { EffectfulStep } from '../../storage/contract/steps.js';
import {
  type AttemptChange,
  type AttemptState,
  type CompletedStep,
  type FinishedWorkflow,
  type NewChild,
  type NewStep,
  type NewWorkflow,
  type OwnedWorkflow,
  type StepState,
  type Storage,
  stepKey,
  type WorkflowRecord,
} from '../../storage/contract/storage.js';
import type { Frontier, Submitted } from '../execution/frontier.js';

/** The result of a write of an execution: committed, or the new owner and status of the workflow. */
export type Written = 'written' | Superseded;

/** The result of writing a step with effects. If a message has no recipient, the step is committed without effects. */
export type WrittenWithEffects = Written | 'without-effects';

/** This execution may no longer write the workflow: it has another owner, or is not PENDING any more. */
export interface Superseded {
  readonly owner: string | null;
  readonly status: WorkflowStatus | undefined;
}

/**
 * The result of a start: `created`, the workflow that already has the ID, or {@link Superseded} if the parent has
 * another owner.
 */
export type Started = 'created' | WorkflowRecord | Superseded;

/**
 * A row, with the frontier of its execution, which is informed of the commit. Without a frontier, no later row depends
 * on this one.
 */
export type TrackedRow<T> = T & Pick<Submitted, 'since'> & { readonly frontier?: Frontier };

/** A step with more effects than this is written alone. The database takes about 50 ms for this many effects. */
const maxGroupedEffects = 2_000;

/** True for a step that has so many effects that it is written by a statement of its own. */
export function isWrittenAlone({ effects }: EffectfulStep): boolean {
  return effects.length > maxGroupedEffects;
}

/**
 * Decides for each row of a statement whether the row is committed.
 *
 * A statement returns the rows that it wrote, or how many. There are four reasons why a row was not written: the
 * workflow was taken over, it was cancelled, the row already existed, or (after a lost connection) an earlier attempt
 * to write this row was committed. One read of ownership and row in one snapshot distinguishes these cases: only this
 * execution writes rows under its owner token, and rows of former owners were loaded with the history.
 */
export class ConfirmedWrites {
  private statements = 0;

  constructor(private readonly storage: Pick<Storage, 'workflows' | 'steps'>) {}

  /** Number of confirmed statements that wrote results. */
  get count(): number {
    return this.statements;
  }

  /** Counts a confirmed statement that wrote results, and returns its number. */
  countStatement(): number {
    return ++this.statements;
  }

  /** `created`: the owner tokens of the rows that the statement created. */
  async starts(rows: readonly (NewWorkflow | NewChild)[], created: ReadonlySet<string>): Promise<Started[]> {
    if (created.size === rows.length) return rows.map(() => 'created');
    const unconfirmed = rows.filter((row) => !created.has(row.owner));
    const ids = unconfirmed.flatMap((row) => [row.workflowId, ...parentOf(row)]);
    const found = new Map((await this.storage.workflows.get(ids)).map((row) => [row.workflowId, row]));
    return rows.map((row) => {
      const existing = found.get(row.workflowId);
      if (created.has(row.owner) || existing?.owner === row.owner) return 'created';
      // The child was not created: the parent has another owner, or lost earlier results.
      const [parent] = parentOf(row).map((id) => found.get(id));
      return existing ?? { owner: parent?.owner ?? null, status: parent?.status };
    });
  }

  /** `written`: how many rows the statement wrote. Unless it wrote all, the rows are read. */
  async steps(rows: readonly TrackedRow<NewStep | CompletedStep>[], written: number): Promise<Written[]> {
    if (written === rows.length) {
      this.confirm(rows);
      return rows.map(() => 'written');
    }
    const stateOf = await this.stepStates(rows);
    return rows.map((row) => {
      const now = stateOf(row);
      if (!now.ours) return now;
      // After a lost connection, an earlier statement may have committed some of the rows: each has its own number.
      this.confirm([row]);
      return 'written';
    });
  }

  /** `written`: the keys of the rows that the statement wrote. The value is true if the effects were written, too. */
  async stepsWithEffects(
    rows: readonly TrackedRow<EffectfulStep>[],
    written: ReadonlyMap<string, boolean>,
  ): Promise<WrittenWithEffects[]> {
    this.confirm(rows.filter((row) => written.has(stepKey(row)) && !isWrittenAlone(row)));
    const stateOf = await this.stepStates(rows.filter((row) => !written.has(stepKey(row))));
    return rows.map((row) => {
      const now = stateOf(row);
      const withEffects = written.get(stepKey(row)) ?? (now.ours ? !now.failed || row.error !== null : undefined);
      if (withEffects === undefined) return now;
      // Each long row has a statement of its own, and therefore a number of its own.
      if (!written.has(stepKey(row)) || isWrittenAlone(row)) this.confirm([row]);
      return withEffects ? 'written' : 'without-effects';
    });
  }

  /** `changed`: the new states of the attempts that the statement changed, by the keys of their steps. */
  async attempts(
    rows: readonly AttemptChange[],
    changed: ReadonlyMap<string, AttemptState>,
  ): Promise<(AttemptState | Superseded)[]> {
    const currentOwner = await this.ownersOf(rows.filter((row) => !changed.has(stepKey(row))));
    return rows.map((row) => changed.get(stepKey(row)) ?? currentOwner(row));
  }

  /** `written`: the IDs of the workflows whose outcomes the statement wrote. */
  async outcomes(rows: readonly FinishedWorkflow[], written: ReadonlySet<string>): Promise<Written[]> {
    if (written.size === rows.length) return rows.map(() => 'written');
    const unconfirmed = rows.filter((row) => !written.has(row.workflowId)).map((row) => row.workflowId);
    const found = new Map((await this.storage.workflows.get(unconfirmed)).map((row) => [row.workflowId, row]));
    return rows.map((row) => {
      const now = found.get(row.workflowId);
      // Only the owner writes SUCCESS or ERROR, so this execution has written an outcome under its token.
      const ours = now?.owner === row.owner && now.status === row.status;
      if (written.has(row.workflowId) || ours) return 'written';
      return { owner: now?.owner ?? null, status: now?.status };
    });
  }

  /** `written`: the IDs of the workflows that the statement marked as suspended. */
  async suspensions(rows: readonly OwnedWorkflow[], written: ReadonlySet<string>): Promise<Written[]> {
    const currentOwner = await this.ownersOf(rows.filter((row) => !written.has(row.workflowId)));
    return rows.map((row) => (written.has(row.workflowId) ? 'written' : currentOwner(row)));
  }

  /** Informs the frontiers that one statement has committed these rows. */
  private confirm(rows: readonly TrackedRow<NewStep | CompletedStep>[]): void {
    const at = this.countStatement();
    for (const row of rows) row.frontier?.confirm(row, at);
  }

  /** Reads the state of these steps. `ours`: an earlier attempt to write this row was committed. */
  private async stepStates(rows: readonly (NewStep | CompletedStep)[]) {
    const found = rows.length === 0 ? [] : await this.storage.steps.states(rows);
    const byKey = new Map<string, StepState>(found.map((each) => [stepKey(each), each]));
    return (row: NewStep | CompletedStep) => {
      const now = byKey.get(stepKey(row));
      const ours = now?.owner === row.owner && now.recorded && now.completionSeq === row.completionSeq;
      return { ours, failed: now?.failed ?? false, owner: now?.owner ?? null, status: now?.status };
    };
  }

  /** Reads the owner and status of workflows that a write did not change. */
  private async ownersOf(rows: readonly { readonly workflowId: string }[]) {
    const found = rows.length === 0 ? [] : await this.storage.workflows.get(rows.map(({ workflowId }) => workflowId));
    const current = new Map(found.map(({ workflowId, owner, status }) => [workflowId, { owner, status }]));
    return ({ workflowId }: { readonly workflowId: string }): Superseded =>
      current.get(workflowId) ?? { owner: null, status: undefined };
  }
}

function parentOf(row: NewWorkflow | NewChild): string[] {
  return 'parentWorkflowId' in row ? [row.parentWorkflowId] : [];
}
