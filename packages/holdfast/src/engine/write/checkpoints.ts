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

/** How a write of an execution turned out: committed, or whose the workflow is instead. */
export type Written = 'written' | Superseded;

/** The same of a step with effects, which is committed without them if one of its messages has no recipient. */
export type WrittenWithEffects = Written | 'without-effects';

/** The workflow is no longer this execution's to write: another owner has it, or it is not PENDING any more. */
export interface Superseded {
  readonly owner: string | null;
  readonly status: WorkflowStatus | undefined;
}

/** A start was new, or the ID was taken already, or the parent that wanted the child lost its own ownership. */
export type Started = 'created' | WorkflowRecord | Superseded;

/** A workflow that rested and has something to do, as of when. */
interface ReturningWorkflow extends OwnedWorkflow {
  readonly at: number;
}

/** A row, and the execution that is to know of its commit: absent, if no other row has to come after it. */
export type Landing<T> = T & Pick<Submitted, 'since'> & { readonly frontier?: Frontier };

/** Starts are repeated that found an ID taken which was free again when it was looked for. */
const maxStarts = 5;

/** The database takes about 50 ms for as many. */
const manyEffects = 2_000;

/**
 * Every write of running workflows, each kind with its own group commit.
 *
 * A statement reports the rows it wrote. For a row that it did not report there are four explanations: the workflow
 * was taken over, it was cancelled, the row was there before, or (after a lost connection) an earlier sending of this
 * very row was committed after all. One read tells them apart, because ownership and record are read in one snapshot:
 * under *our* owner token nobody but us can have written it, and what former owners wrote was loaded with the history.
 */
export class Checkpoints {
  private readonly startsUnderWay = new Set<string>();
  /** How many statements that write results have been confirmed. */
  landings = 0;
  private readonly starts: Batcher<NewWorkflow, Started>;
  private readonly children: Batcher<NewChild, Started>;
  private readonly steps: Batcher<Landing<NewStep>, Written>;
  private readonly effects: Batcher<Landing<EffectfulStep>, WrittenWithEffects>;
  private readonly completions: Batcher<Landing<CompletedStep>, Written>;
  private readonly attempts: Batcher<AttemptChange, AttemptState | Superseded>;
  private readonly finishes: Batcher<FinishedWorkflow, Written>;
  private readonly rests: Batcher<OwnedWorkflow & After, Written>;
  private readonly returns: Batcher<ReturningWorkflow, undefined>;

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
    // The outcomes of what has been done stay in memory then, and nothing more is done meanwhile.
    const refused = (kind: string) => (error: Error | null) => startGate.setRefused(kind, error);
    this.starts = batcher({
      name: 'workflow starts',
      failsFast: () => true,
      key: (row) => row.workflowId,
      lanes,
      untilAllowed,
      write: async (rows, hasty) => this.started(rows, await by(hasty).workflows.insertMany(writer, rows)),
      weigh: (row) => row.inputs.length + 300,
    });
    this.children = batcher({
      name: 'child workflow starts',
      key: (row) => row.parentWorkflowId,
      untilAllowed,
      write: async (rows, hasty) => this.started(rows, await by(hasty).workflows.insertChildren(writer, rows)),
      weigh: (row) => row.inputs.length + 300,
    });
    this.steps = batcher({
      name: 'step checkpoints',
      refused: refused('step checkpoints'),
      key: (row) => row.workflowId,
      lanes,
      write: (rows, hasty) => this.writeSteps(rows, () => by(hasty).steps.recordMany(writer.appName, rows)),
      weigh: (row) => (row.output?.length ?? 0) + (row.error?.length ?? 0) + 200,
    });
    this.effects = batcher({
      // One statement at a time: the offsets of a stream follow each other (storage/sql/effects.ts).
      name: 'steps with effects',
      key: (row) => row.workflowId,
      write: (rows, hasty) => this.writeEffects(rows, () => by(hasty).steps.recordEffects(writer.appName, rows)),
      weigh: (row) => row.effects.reduce((sum, each) => sum + ('value' in each ? each.value.length : 0) + 200, 300),
      takesLong: (row) => row.effects.length > manyEffects,
    });
    this.completions = batcher({
      name: 'step completions',
      refused: refused('step completions'),
      key: (row) => row.workflowId,
      write: (rows, hasty) => this.writeSteps(rows, () => by(hasty).steps.completeMany(rows)),
      weigh: () => 100,
    });
    this.attempts = attemptWrites(storage, batcher);
    this.finishes = batcher(this.outcomeWrites(refused('workflow outcomes')));
    [this.rests, this.returns] = slotWrites(storage, batcher);
  }

  private outcomeWrites(refused: (error: Error | null) => void): BatchKind<FinishedWorkflow, Written> {
    const by = (impatient?: boolean) => (impatient ? this.storage.impatient : this.storage);
    return {
      name: 'workflow outcomes',
      refused,
      key: (row) => row.workflowId,
      lanes: this.storage.writeLanes,
      write: (rows, hasty) => this.writeFinishes(rows, () => by(hasty).workflows.finishMany(rows)),
      weigh: (row) => (row.output?.length ?? 0) + (row.error?.length ?? 0) + 150,
    };
  }

  async start(row: NewWorkflow): Promise<Started> {
    this.startsUnderWay.add(row.owner);
    try {
      for (;;) {
        const { lossCount } = this.startGate;
        const started = await this.starts.submit(row);
        // Others took over what was this process's meanwhile: the repetition tells whether this was among it.
        if (started === 'created' && this.startGate.lossCount !== lossCount) continue;
        // Taken when it was written, gone when it was looked for: who had the ID was deleted in between.
        if (started === 'created' || 'workflowId' in started) return started;
      }
    } finally {
      this.startsUnderWay.delete(row.owner);
    }
  }

  async startChild(row: NewChild): Promise<Started> {
    this.startsUnderWay.add(row.owner);
    try {
      for (let tries = 1; ; tries++) {
        const { lossCount } = this.startGate;
        const started = await this.children.submit(row);
        if (started === 'created' && this.startGate.lossCount !== lossCount) continue;
        if (started === 'created' || 'workflowId' in started) return started;
        if (started.owner !== row.parentOwner || started.status !== 'PENDING') return started;
        // What its parent has done before is not on record any more.
        if (tries === maxStarts) return started;
      }
    } finally {
      this.startsUnderWay.delete(row.owner);
    }
  }

  /** Whether the answer to a start under this token is still to come: it may be on record already. */
  isStarting(owner: string): boolean {
    return this.startsUnderWay.has(owner);
  }

  recordStep(row: Landing<NewStep>): Promise<Written> {
    return this.steps.submit(row);
  }

  recordEffects(row: Landing<EffectfulStep>): Promise<WrittenWithEffects> {
    return this.effects.submit(row);
  }

  completeStep(row: Landing<CompletedStep>): Promise<Written> {
    return this.completions.submit(row);
  }

  changeAttempt(row: AttemptChange): Promise<AttemptState | Superseded> {
    return this.attempts.submit(row);
  }

  finish(row: FinishedWorkflow): Promise<Written> {
    return this.finishes.submit(row);
  }

  /** Marks a workflow as let go of while it waits: from then on it holds no slot of its queue. */
  setAtRest(row: OwnedWorkflow & After): Promise<Written> {
    return this.rests.submit(row);
  }

  /**
   * Puts one that rests back on its queue. When this resolves it is not this owner's any more, and nobody reads back why:
   * if a repetition finds nothing to put back, an earlier sending did it, or somebody has taken it over or ended it.
   */
  putBack(row: ReturningWorkflow): Promise<unknown> {
    return this.returns.submit(row);
  }

  /** The number of a statement that writes results and was confirmed just now. */
  landing(): number {
    return ++this.landings;
  }

  /** Resolves when every write so far has settled. */
  async idle(): Promise<void> {
    await Promise.all(this.all().map((batcher) => batcher.idle()));
  }

  get isIdle(): boolean {
    return this.all().every((batcher) => batcher.isIdle);
  }

  /** Running workflows see nothing of it; `startError` is for those who wait outside for a start. */
  close(startError?: Error): void {
    this.starts.close(startError);
    for (const batcher of this.all()) if (batcher !== this.starts) batcher.close();
  }

  private all() {
    const ofRests = [this.rests, this.returns];
    const ofSteps = [this.steps, this.effects, this.completions, this.attempts];
    return [this.starts, this.children, ...ofSteps, this.finishes, ...ofRests];
  }

  private async started(rows: readonly (NewWorkflow | NewChild)[], created: Set<string>): Promise<Started[]> {
    if (created.size === rows.length) return rows.map(() => 'created');
    const unconfirmed = rows.filter((row) => !created.has(row.owner));
    const asked = unconfirmed.flatMap((row) => [row.workflowId, ...parentOf(row)]);
    const found = new Map((await this.storage.workflows.get(asked)).map((row) => [row.workflowId, row]));
    return rows.map((row) => {
      const existing = found.get(row.workflowId);
      if (created.has(row.owner) || existing?.owner === row.owner) return 'created';
      // No child either: its parent is no longer the caller's.
      const [parent] = parentOf(row).map((id) => found.get(id));
      return existing ?? { owner: parent?.owner ?? null, status: parent?.status };
    });
  }

  private async writeSteps(
    rows: readonly Landing<NewStep | CompletedStep>[],
    write: () => Promise<Set<string>>,
  ): Promise<Written[]> {
    const written = await write();
    if (written.size === rows.length) {
      this.confirm(rows);
      return rows.map(() => 'written');
    }
    this.confirm(rows.filter((row) => written.has(stepKey(row))));
    const stand = await this.stepStanding(rows.filter((row) => !written.has(stepKey(row))));
    return rows.map((row) => {
      if (written.has(stepKey(row))) return 'written';
      const now = stand(row);
      if (!now.ours) return now;
      this.confirm([row]);
      return 'written';
    });
  }

  /** One statement has committed these rows. */
  private confirm(rows: readonly Landing<NewStep | CompletedStep>[]): void {
    const at = this.landing();
    for (const row of rows) row.frontier?.confirm(row, at);
  }

  private async writeEffects(
    rows: readonly Landing<EffectfulStep>[],
    write: () => Promise<Map<string, boolean>>,
  ): Promise<WrittenWithEffects[]> {
    const landed = await write();
    const isLong = ({ effects }: EffectfulStep): boolean => effects.length > manyEffects;
    this.confirm(rows.filter((row) => landed.has(stepKey(row)) && !isLong(row)));
    const stand = await this.stepStanding(rows.filter((row) => !landed.has(stepKey(row))));
    return rows.map((row) => {
      const now = stand(row);
      const withEffects = landed.get(stepKey(row)) ?? (now.ours ? !now.failed || row.error !== null : undefined);
      if (withEffects === undefined) return now;
      // Long ones have each a statement of their own.
      if (!landed.has(stepKey(row)) || isLong(row)) this.confirm([row]);
      return withEffects ? 'written' : 'without-effects';
    });
  }

  /** How each of these steps stands now; `ours`: as an earlier sending of this very row left it. */
  private async stepStanding(rows: readonly (NewStep | CompletedStep)[]) {
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
      // Only the owner writes SUCCESS or ERROR, so an outcome under our token is our own.
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

/** What is written when a workflow gives its slot in a queue back, and when it asks for one again. */
function slotWrites(storage: Storage, batcher: NewBatcher) {
  const by = (impatient?: boolean) => (impatient ? storage.impatient : storage).workflows;
  const rests = batcher<OwnedWorkflow & After, Written>({
    name: 'workflows at rest',
    key: (row) => row.workflowId,
    write: async (rows, hasty) => {
      const written = await by(hasty).setAtRest(rows);
      const lost = rows.filter((row) => !written.has(row.workflowId));
      const now = await ownersOf(storage, lost);
      return rows.map((row) => (written.has(row.workflowId) ? 'written' : now(row)));
    },
    weigh: () => 100,
  });
  const returns = batcher<ReturningWorkflow, undefined>({
    name: 'returns to queues',
    key: (row) => row.workflowId,
    write: async (owned, hasty) => {
      const now = Math.max(...owned.map(({ at }) => at));
      await by(hasty).release({ owned, queueName: internalQueue, now });
      return owned.map(() => undefined);
    },
    weigh: () => 100,
  });
  return [rests, returns] as const;
}

/** How far the attempts of steps have come (storage/sql/attempts.ts). */
function attemptWrites(storage: Storage, batcher: NewBatcher): Batcher<AttemptChange, AttemptState | Superseded> {
  return batcher<AttemptChange, AttemptState | Superseded>({
    name: 'attempts of steps',
    key: (row) => row.workflowId,
    lanes: storage.writeLanes,
    write: async (rows, hasty) => {
      const changed = await (hasty ? storage.impatient : storage).steps.changeAttempts(rows);
      const now = await ownersOf(
        storage,
        rows.filter((row) => !changed.has(stepKey(row))),
      );
      return rows.map((row) => changed.get(stepKey(row)) ?? now(row));
    },
    weigh: () => 150,
  });
}

/** Whose these workflows are that a write did not find to be its own. */
async function ownersOf(storage: Storage, lost: readonly { readonly workflowId: string }[]) {
  const found = lost.length === 0 ? [] : await storage.workflows.get(lost.map(({ workflowId }) => workflowId));
  const now = new Map(found.map(({ workflowId, owner, status }) => [workflowId, { owner, status }]));
  return ({ workflowId }: { readonly workflowId: string }): Superseded =>
    now.get(workflowId) ?? { owner: null, status: undefined };
}
