import type { Logger } from '../../model/logger.js';
import { internalQueue } from '../../model/queues.js';
import type { After, EffectfulStep } from '../../storage/contract/steps.js';
import type {
  AttemptChange,
  AttemptState,
  CompletedStep,
  FinishedWorkflow,
  NewChild,
  NewStep,
  NewWorkflow,
  OwnedWorkflow,
  Storage,
  Writer,
} from '../../storage/contract/storage.js';
import type { StartGate } from '../start-gate.js';
import type { BatchKind } from './batch-kind.js';
import { Batcher } from './batcher.js';
import {
  ConfirmedWrites,
  isWrittenAlone,
  type Started,
  type Superseded,
  type TrackedRow,
  type Written,
  type WrittenWithEffects,
} from './confirm-writes.js';

/** A suspended workflow that goes back to its queue, with the instant of its return. */
interface ReturningWorkflow extends OwnedWorkflow {
  readonly at: number;
}

/**
 * How often the start of a child is attempted. A start is repeated if its ID was taken at the insert, but free when
 * the row was read.
 */
const maxStarts = 5;

/**
 * All writes of running workflows. Each kind of write has its own group commit. confirm-writes.ts decides which rows
 * are committed.
 */
export class Checkpoints {
  private readonly openStarts = new Set<string>();
  private readonly confirmed: ConfirmedWrites;
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
    const confirmed = new ConfirmedWrites(storage);
    this.confirmed = confirmed;
    const options = { logger, classify: (error: unknown) => storage.classify(error) };
    const by = (impatient?: boolean) => (impatient ? storage.impatient : storage);
    const batcher = <T, R>(kind: BatchKind<T, R>): Batcher<T, R> => new Batcher(kind, options);
    const untilAllowed = () => startGate.untilConfirmed();
    // While outcomes are refused, they stay in memory, and the start gate keeps further steps from starting.
    const refused = (kind: string) => (error: Error | null) => startGate.setRefused(kind, error);
    this.starts = batcher({
      name: 'workflow starts',
      failsFast: () => true,
      key: (row) => row.workflowId,
      lanes: storage.writeLanes,
      untilAllowed,
      write: async (rows, impatient) => confirmed.starts(rows, await by(impatient).workflows.insertMany(writer, rows)),
      weigh: (row) => row.inputs.length + 300,
    });
    this.children = batcher({
      name: 'child workflow starts',
      key: (row) => row.parentWorkflowId,
      untilAllowed,
      write: async (rows, impatient) =>
        confirmed.starts(rows, await by(impatient).workflows.insertChildren(writer, rows)),
      weigh: (row) => row.inputs.length + 300,
    });
    this.steps = batcher({
      name: 'step checkpoints',
      refused: refused('step checkpoints'),
      key: (row) => row.workflowId,
      lanes: storage.writeLanes,
      write: async (rows, impatient) =>
        confirmed.steps(rows, await by(impatient).steps.recordMany(writer.appName, rows)),
      weigh: (row) => (row.output?.length ?? 0) + (row.error?.length ?? 0) + 200,
    });
    this.effects = batcher({
      // This kind has only one lane, because the offsets of a stream must be consecutive (storage/sql/effects.ts).
      name: 'steps with effects',
      key: (row) => row.workflowId,
      write: async (rows, impatient) =>
        confirmed.stepsWithEffects(rows, await by(impatient).steps.recordEffects(writer.appName, rows)),
      weigh: (row) => row.effects.reduce((sum, each) => sum + ('value' in each ? each.value.length : 0) + 200, 300),
      takesLong: isWrittenAlone,
    });
    this.completions = batcher({
      name: 'step completions',
      refused: refused('step completions'),
      key: (row) => row.workflowId,
      write: async (rows, impatient) => confirmed.steps(rows, await by(impatient).steps.completeMany(rows)),
      weigh: () => 100,
    });
    this.attempts = attemptWrites(storage, confirmed, batcher);
    this.finishes = batcher(this.outcomeWrites(refused('workflow outcomes')));
    [this.suspensions, this.queueReturns] = slotWrites(storage, confirmed, batcher);
  }

  private outcomeWrites(refused: (error: Error | null) => void): BatchKind<FinishedWorkflow, Written> {
    const by = (impatient?: boolean) => (impatient ? this.storage.impatient : this.storage);
    return {
      name: 'workflow outcomes',
      refused,
      key: (row) => row.workflowId,
      lanes: this.storage.writeLanes,
      write: async (rows, impatient) => this.confirmed.outcomes(rows, await by(impatient).workflows.finishMany(rows)),
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

  /** Number of confirmed statements that wrote results. */
  get confirmedCount(): number {
    return this.confirmed.count;
  }

  /** Counts a confirmed statement that wrote results, and returns its number. */
  countConfirmed(): number {
    return this.confirmed.countStatement();
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
}

type NewBatcher = <T, R>(kind: BatchKind<T, R>) => Batcher<T, R>;

/** The writes by which a suspended workflow frees its slot of a queue, and goes back to the queue. */
function slotWrites(storage: Storage, confirmed: ConfirmedWrites, batcher: NewBatcher) {
  const by = (impatient?: boolean) => (impatient ? storage.impatient : storage).workflows;
  const suspensions = batcher<OwnedWorkflow & After, Written>({
    name: 'suspended workflows',
    key: (row) => row.workflowId,
    write: async (rows, impatient) => confirmed.suspensions(rows, await by(impatient).markSuspended(rows)),
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
function attemptWrites(
  storage: Storage,
  confirmed: ConfirmedWrites,
  batcher: NewBatcher,
): Batcher<AttemptChange, AttemptState | Superseded> {
  return batcher<AttemptChange, AttemptState | Superseded>({
    name: 'attempts of steps',
    key: (row) => row.workflowId,
    lanes: storage.writeLanes,
    write: async (rows, impatient) =>
      confirmed.attempts(rows, await (impatient ? storage.impatient : storage).steps.changeAttempts(rows)),
    weigh: () => 150,
  });
}
