import type { Logger } from '../../model/logger.js';
import { internalQueue } from '../../model/queues.js';
import type { WorkflowStatus } from '../../model/status.js';
import type { After, EffectfulStep } from '../../storage/contract/steps.js';
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
  type Writer,
} from '../../storage/contract/storage.js';
import type { Frontier, Submitted } from '../execution/frontier.js';
import type { StartGate } from '../start-gate.js';
import type { BatchKind } from './batch-kind.js';
import { Batcher } from './batcher.js';

/** The result of a write of an execution: committed, or the new owner and status of the workflow. */
export type Written = 'written' | Superseded;

/** The result of writing a step with effects. If a message has no recipient, the step is committed without effects. */
export type WrittenWithEffects = Written | 'without-effects';

/** This execution may no longer write the workflow: it has another owner, or is not PENDING any more. */
export interface Superseded {
  readonly owner: string | null;
  readonly status: WorkflowStatus | undefined;
}

/** The result of a start: created, or the workflow that already has the ID, or the parent has another owner. */
export type Started = 'created' | WorkflowRecord | Superseded;

/** A suspended workflow that goes back to its queue, with the instant of its return. */
interface ReturningWorkflow extends OwnedWorkflow {
  readonly at: number;
}

/**
 * A row, with the frontier of its execution, which is informed of the commit. Without a frontier, no later row depends
 * on this one.
 */
export type TrackedRow<T> = T & Pick<Submitted, 'since'> & { readonly frontier?: Frontier };

/**
 * How often the start of a child is attempted. A start is repeated if its ID was taken at the insert, but free when
 * the row was read.
 */
const maxStarts = 5;

/** A step with more effects than this is written alone. The database takes about 50 ms for this many effects. */
const maxGroupedEffects = 2_000;

/**
 * All writes of running workflows. Each kind of write has its own group commit.
 *
 * A statement returns the rows that it wrote. There are four reasons why a row was not written: the workflow was taken
 * over, it was cancelled, the row already existed, or (after a lost connection) an earlier attempt to write this row
 * was committed. One read of ownership and row in one snapshot distinguishes these cases: only this execution writes
 * rows under its owner token, and rows of former owners were loaded with the history.
 */
export class Checkpoints {
  private readonly openStarts = new Set<string>();
  /** Number of confirmed statements that wrote results. */
  confirmedCount = 0;
  private readonly starts: Batcher<NewWorkflow, Started>;
  private readonly children: Batcher<NewChild, Started>;
  private readonly steps: Batcher<TrackedRow<NewStep>, Written>;
  private readonly effects: Batcher<TrackedRow<EffectfulStep>, WrittenWithEffects>;
  private readonly completions: Batcher<TrackedRow<CompletedStep>, Written>;
  private readonly attempts: Batcher<AttemptChange, AttemptState | Superseded>;
  private readonly finishes: Batcher<FinishedWorkflow, Written>;
  private readonly suspensions: Batcher<OwnedWorkflow & After, Written>;
  private readonly queueReturns: Batcher<ReturningWorkflow, undefined>;

  constructor(
    private readonly storage: Storage,
    writer: Writer,
    logger: Logger,
    private readonly startGate: StartGate,
  ) {
    const options = { logger, classify: (error: unknown) => storage.classify(error) };
    const { writeLanes: lanes } = storage;
    const by = (impatient?: boolean) => (impatient ? storage.impatient : storage);
    const batcher = <T, R>(kind: BatchKind<T, R>): Batcher<T, R> => new Batcher(kind, options);
    const untilAllowed = () => startGate.untilConfirmed();
    // While outcomes are refused, they stay in memory, and the start gate keeps further steps from starting.
    const refused = (kind: string) => (error: Error | null) => startGate.setRefused(kind, error);
    this.starts = batcher({
      name: 'workflow starts',
      failsFast: () => true,
      key: (row) => row.workflowId,
      lanes,
      untilAllowed,
      write: async (rows, impatient) => this.started(rows, await by(impatient).workflows.insertMany(writer, rows)),
      weigh: (row) => row.inputs.length + 300,
    });
    this.children = batcher({
      name: 'child workflow starts',
      key: (row) => row.parentWorkflowId,
      untilAllowed,
      write: async (rows, impatient) => this.started(rows, await by(impatient).workflows.insertChildren(writer, rows)),
      weigh: (row) => row.inputs.length + 300,
    });
    this.steps = batcher({
      name: 'step checkpoints',
      refused: refused('step checkpoints'),
      key: (row) => row.workflowId,
      lanes,
      write: (rows, impatient) => this.writeSteps(rows, () => by(impatient).steps.recordMany(writer.appName, rows)),
      weigh: (row) => (row.output?.length ?? 0) + (row.error?.length ?? 0) + 200,
    });
    this.effects = batcher({
      // Only one lane, because the offsets of a stream must be consecutive (storage/sql/effects.ts).
      name: 'steps with effects',
      key: (row) => row.workflowId,
      write: (rows, impatient) =>
        this.writeEffects(rows, () => by(impatient).steps.recordEffects(writer.appName, rows)),
      weigh: (row) => row.effects.reduce((sum, each) => sum + ('value' in each ? each.value.length : 0) + 200, 300),
      takesLong: (row) => row.effects.length > maxGroupedEffects,
    });
    this.completions = batcher({
      name: 'step completions',
      refused: refused('step completions'),
      key: (row) => row.workflowId,
      write: (rows, impatient) => this.writeSteps(rows, () => by(impatient).steps.completeMany(rows)),
      weigh: () => 100,
    });
    this.attempts = attemptWrites(storage, batcher);
    this.finishes = batcher(this.outcomeWrites(refused('workflow outcomes')));
    [this.suspensions, this.queueReturns] = slotWrites(storage, batcher);
  }

  private outcomeWrites(refused: (error: Error | null) => void): BatchKind<FinishedWorkflow, Written> {
    const by = (impatient?: boolean) => (impatient ? this.storage.impatient : this.storage);
    return {
      name: 'workflow outcomes',
      refused,
      key: (row) => row.workflowId,
      lanes: this.storage.writeLanes,
      write: (rows, impatient) => this.writeFinishes(rows, () => by(impatient).workflows.finishMany(rows)),
      weigh: (row) => (row.output?.length ?? 0) + (row.error?.length ?? 0) + 150,
    };
  }

  async start(row: NewWorkflow): Promise<Started> {
    this.openStarts.add(row.owner);
    try {
      for (;;) {
        const { lossCount } = this.startGate;
        const started = await this.starts.submit(row);
        // Other processes took over workflows of this process meanwhile. The repetition shows if this workflow is one
        // of them.
        if (started === 'created' && this.startGate.lossCount !== lossCount) continue;
        // Otherwise the ID was taken at the insert, but the workflow with this ID was deleted before it could be read.
        if (started === 'created' || 'workflowId' in started) return started;
      }
    } finally {
      this.openStarts.delete(row.owner);
    }
  }

  async startChild(row: NewChild): Promise<Started> {
    this.openStarts.add(row.owner);
    try {
      for (let attempt = 1; ; attempt++) {
        const { lossCount } = this.startGate;
        const started = await this.children.submit(row);
        if (started === 'created' && this.startGate.lossCount !== lossCount) continue;
        if (started === 'created' || 'workflowId' in started) return started;
        if (started.owner !== row.parentOwner || started.status !== 'PENDING') return started;
        // The parent still has its owner, so its earlier results are missing in the database.
        if (attempt === maxStarts) return started;
      }
    } finally {
      this.openStarts.delete(row.owner);
    }
  }

  /** True while a start under this owner token has not been answered. Its row may already be committed. */
  isStarting(owner: string): boolean {
    return this.openStarts.has(owner);
  }

  recordStep(row: TrackedRow<NewStep>): Promise<Written> {
    return this.steps.submit(row);
  }

  recordEffects(row: TrackedRow<EffectfulStep>): Promise<WrittenWithEffects> {
    return this.effects.submit(row);
  }

  completeStep(row: TrackedRow<CompletedStep>): Promise<Written> {
    return this.completions.submit(row);
  }

  changeAttempt(row: AttemptChange): Promise<AttemptState | Superseded> {
    return this.attempts.submit(row);
  }

  finish(row: FinishedWorkflow): Promise<Written> {
    return this.finishes.submit(row);
  }

  /** Marks a workflow as suspended. From then on it holds no slot of its queue. */
  markSuspended(row: OwnedWorkflow & After): Promise<Written> {
    return this.suspensions.submit(row);
  }

  /**
   * Puts a suspended workflow back on its queue. When this resolves, the workflow no longer belongs to this owner. The
   * reason is not read: if a repetition finds no row to put back, an earlier attempt did it, or another process has
   * taken over or ended the workflow.
   */
  returnToQueue(row: ReturningWorkflow): Promise<unknown> {
    return this.queueReturns.submit(row);
  }

  /** Counts a confirmed statement that wrote results, and returns its number. */
  countConfirmed(): number {
    return ++this.confirmedCount;
  }

  /** Resolves when all writes have settled. */
  async idle(): Promise<void> {
    await Promise.all(this.all().map((batcher) => batcher.idle()));
  }

  get isIdle(): boolean {
    return this.all().every((batcher) => batcher.isIdle);
  }

  /**
   * Stops all writes. Writes of running workflows never settle. Starts of callers outside of workflows reject with
   * `startError`.
   */
  close(startError?: Error): void {
    this.starts.close(startError);
    for (const batcher of this.all()) if (batcher !== this.starts) batcher.close();
  }

  private all() {
    const slotBatchers = [this.suspensions, this.queueReturns];
    const stepBatchers = [this.steps, this.effects, this.completions, this.attempts];
    return [this.starts, this.children, ...stepBatchers, this.finishes, ...slotBatchers];
  }

  private async started(rows: readonly (NewWorkflow | NewChild)[], created: Set<string>): Promise<Started[]> {
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

  private async writeSteps(
    rows: readonly TrackedRow<NewStep | CompletedStep>[],
    write: () => Promise<Set<string>>,
  ): Promise<Written[]> {
    const written = await write();
    if (written.size === rows.length) {
      this.confirm(rows);
      return rows.map(() => 'written');
    }
    this.confirm(rows.filter((row) => written.has(stepKey(row))));
    const stateOf = await this.stepStates(rows.filter((row) => !written.has(stepKey(row))));
    return rows.map((row) => {
      if (written.has(stepKey(row))) return 'written';
      const now = stateOf(row);
      if (!now.ours) return now;
      this.confirm([row]);
      return 'written';
    });
  }

  /** Informs the frontiers that one statement has committed these rows. */
  private confirm(rows: readonly TrackedRow<NewStep | CompletedStep>[]): void {
    const at = this.countConfirmed();
    for (const row of rows) row.frontier?.confirm(row, at);
  }

  private async writeEffects(
    rows: readonly TrackedRow<EffectfulStep>[],
    write: () => Promise<Map<string, boolean>>,
  ): Promise<WrittenWithEffects[]> {
    const landed = await write();
    const isLong = ({ effects }: EffectfulStep): boolean => effects.length > maxGroupedEffects;
    this.confirm(rows.filter((row) => landed.has(stepKey(row)) && !isLong(row)));
    const stateOf = await this.stepStates(rows.filter((row) => !landed.has(stepKey(row))));
    return rows.map((row) => {
      const now = stateOf(row);
      const withEffects = landed.get(stepKey(row)) ?? (now.ours ? !now.failed || row.error !== null : undefined);
      if (withEffects === undefined) return now;
      // Each long row has a statement of its own, and therefore a number of its own.
      if (!landed.has(stepKey(row)) || isLong(row)) this.confirm([row]);
      return withEffects ? 'written' : 'without-effects';
    });
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

  private async writeFinishes(
    rows: readonly FinishedWorkflow[],
    write: () => Promise<Set<string>>,
  ): Promise<Written[]> {
    const written = await write();
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
}

function parentOf(row: NewWorkflow | NewChild): string[] {
  return 'parentWorkflowId' in row ? [row.parentWorkflowId] : [];
}

type NewBatcher = <T, R>(kind: BatchKind<T, R>) => Batcher<T, R>;

/** The writes by which a suspended workflow frees its slot of a queue, and goes back to the queue. */
function slotWrites(storage: Storage, batcher: NewBatcher) {
  const by = (impatient?: boolean) => (impatient ? storage.impatient : storage).workflows;
  const suspensions = batcher<OwnedWorkflow & After, Written>({
    name: 'suspended workflows',
    key: (row) => row.workflowId,
    write: async (rows, impatient) => {
      const written = await by(impatient).markSuspended(rows);
      const unwritten = rows.filter((row) => !written.has(row.workflowId));
      const currentOwner = await ownersOf(storage, unwritten);
      return rows.map((row) => (written.has(row.workflowId) ? 'written' : currentOwner(row)));
    },
    weigh: () => 100,
  });
  const queueReturns = batcher<ReturningWorkflow, undefined>({
    name: 'returns to queues',
    key: (row) => row.workflowId,
    write: async (owned, impatient) => {
      const now = Math.max(...owned.map(({ at }) => at));
      await by(impatient).release({ owned, queueName: internalQueue, now });
      return owned.map(() => undefined);
    },
    weigh: () => 100,
  });
  return [suspensions, queueReturns] as const;
}

/** The writes that record the starts and ends of attempts of steps (storage/sql/attempts.ts). */
function attemptWrites(storage: Storage, batcher: NewBatcher): Batcher<AttemptChange, AttemptState | Superseded> {
  return batcher<AttemptChange, AttemptState | Superseded>({
    name: 'attempts of steps',
    key: (row) => row.workflowId,
    lanes: storage.writeLanes,
    write: async (rows, impatient) => {
      const changed = await (impatient ? storage.impatient : storage).steps.changeAttempts(rows);
      const currentOwner = await ownersOf(
        storage,
        rows.filter((row) => !changed.has(stepKey(row))),
      );
      return rows.map((row) => changed.get(stepKey(row)) ?? currentOwner(row));
    },
    weigh: () => 150,
  });
}

/** Reads the owner and status of workflows that a write did not change. */
async function ownersOf(storage: Storage, rows: readonly { readonly workflowId: string }[]) {
  const found = rows.length === 0 ? [] : await storage.workflows.get(rows.map(({ workflowId }) => workflowId));
  const current = new Map(found.map(({ workflowId, owner, status }) => [workflowId, { owner, status }]));
  return ({ workflowId }: { readonly workflowId: string }): Superseded =>
    current.get(workflowId) ?? { owner: null, status: undefined };
}
