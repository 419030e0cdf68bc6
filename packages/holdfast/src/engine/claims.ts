import type { Timer } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import { describeKey, type WorkflowKey } from '../model/workflow-key.js';
import type { Claim, ClaimedRecord, OwnedWorkflow, StepRecord } from '../storage/contract/storage.js';
import type { Engine } from './engine.js';
import { roleFor } from './start/authorization.js';

/**
 * How long to search for a claim whose answer was lost. The statement of the claim may still wait for a lock in the
 * database, and commit later.
 */
const maxUncertainMs = 60_000;
/** Delay between two searches for lost claims. */
const readBackEveryMs = 1_000;

/** Number of histories that one statement reads. */
const historiesPerRead = 50;

/** Delay before the retry of a workflow that could not be read. */
const unreadableRetryMs = 5_000;

/**
 * Takes work from the database and runs it.
 *
 * **Invariant:** this process runs every workflow that it has claimed. If the connection broke during a claim, the
 * claim may have been committed. This process then searches for workflows under the owner token of the claim, because
 * no other process takes work that a live process owns.
 */
export class Claims {
  /** Owner tokens of claims that may have been committed, with the instant until which to search for each. */
  private readonly uncertain = new Map<string, number>();
  /** Owner tokens of claims that are open, or whose histories are being read. */
  private readonly loading = new Set<string>();
  /** Claimed workflows that could not be read or run, and are retried. */
  private readonly unreadable = new Map<string, OwnedWorkflow>();
  private timer: Timer | undefined;
  private pauses = 0;
  private stopped = false;

  constructor(private readonly engine: Engine) {}

  /** True if the result of every claim is known, and every claimed workflow runs. */
  get areSettled(): boolean {
    return this.uncertain.size === 0 && this.unreadable.size === 0;
  }

  /** True while a claim pauses before its retry. */
  get arePausing(): boolean {
    return this.pauses > 0;
  }

  /**
   * Waits before the retry of a claim, because another process claimed first. The pause does not use the clock of the
   * app, because it concerns processes and not workflows.
   */
  async pause(ms: number): Promise<void> {
    this.pauses++;
    await new Promise((resolve) => setTimeout(resolve, ms));
    this.pauses--;
  }

  /** True if the workflow is claimed, or perhaps claimed, but is not in memory yet. */
  isLoading(workflow: OwnedWorkflow): boolean {
    const { owner } = workflow;
    return this.loading.has(owner) || this.uncertain.has(owner) || this.unreadable.has(claimKey(workflow));
  }

  /**
   * Gives the statement the terms of a claim, and runs the workflows that the statement claims: at most `limit`.
   * Returns all records that the statement has changed. Returns none while the start gate is closed.
   */
  async claimAndRun(limit: number, statement: (claim: Claim) => Promise<ClaimedRecord[]>): Promise<ClaimedRecord[]> {
    await this.readBack();
    const { owners, storage, clock, writer, version, registry, startGate } = this.engine;
    // Between this check and the claim no other statement may be sent (see start-gate.ts).
    if (!startGate.isOpen) return [];
    const { lossCount } = startGate;
    const owner = owners.next();
    const claim: Claim = { writer, owner, version, runnable: registry.runnable(), now: clock.now(), limit };
    this.loading.add(owner);
    try {
      const claimed = await statement(claim).catch((error) => {
        if (storage.classify(error) === 'lost') this.readBackUnder(owner);
        throw error;
      });
      await this.runClaimed(claimed, lossCount);
      return claimed;
    } finally {
      this.loading.delete(owner);
    }
  }

  /**
   * Runs the workflows of committed claims whose answers were lost. Code that plans with the number of running
   * workflows calls this first.
   */
  async readBack(): Promise<void> {
    const { storage, writer, version, clock, startGate } = this.engine;
    for (const [owner, until] of this.uncertain) {
      const { lossCount } = startGate;
      const claimed = await storage.workflows.claimedUnder({ owner, executorId: writer.executorId, version });
      // A concurrent call may have found this claim meanwhile.
      if (!this.uncertain.has(owner)) continue;
      if (claimed.length > 0 || clock.now() > until) this.uncertain.delete(owner);
      this.loading.add(owner);
      await this.runClaimed(claimed, lossCount).finally(() => this.loading.delete(owner));
    }
  }

  /** Stops all retries. A stopped object cannot be started again. */
  stop(): void {
    this.stopped = true;
    this.timer?.cancel();
  }

  /** Runs claimed workflows. `lossCount` is the value of the start gate from before the claim. */
  private async runClaimed(claimed: readonly ClaimedRecord[], lossCount: number): Promise<void> {
    const { engine } = this;
    const records = claimed.filter((record) => record.status === 'PENDING');
    for (const record of claimed)
      if (record.status === 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') reportDeadLetters(engine, record);
    const failed = ({ workflowId, owner }: ClaimedRecord, error: unknown): void =>
      this.retryLater({ workflowId, owner: owner ?? '' }, 'cannot be read', error);
    await runInSlices(engine, { records, lossCount }, { isAwaited: () => true, failed });
  }

  /** Retries a claimed workflow later. No other process would run it: it is PENDING, and its owner is alive. */
  retryLater(workflow: OwnedWorkflow, what: string, error: unknown): void {
    if (this.stopped) return;
    const { clock, logger } = this.engine;
    logger.error(`Workflow "${workflow.workflowId}" ${what}, and is tried again: ${describeError(error)}`);
    const key = claimKey(workflow);
    this.unreadable.set(key, workflow);
    const retry = async (): Promise<void> => {
      let isOver = true;
      const failed = (each: OwnedWorkflow, again: unknown): void => {
        isOver = false;
        this.retryLater(each, 'cannot be read', again);
      };
      await reload(this.engine, [workflow], { isAwaited: () => !this.stopped, failed });
      if (isOver) this.unreadable.delete(key);
    };
    clock.at(clock.now() + unreadableRetryMs, () => void retry(), 'background');
  }

  private readBackUnder(owner: string): void {
    this.uncertain.set(owner, this.engine.clock.now() + maxUncertainMs);
    this.readBackLater();
  }

  /** Searches by timer, because there may be no later claim: the lost claim may have taken the last available work. */
  private readBackLater(): void {
    if (this.timer || this.stopped) return;
    const { clock, logger } = this.engine;
    const search = async (): Promise<void> => {
      this.timer = undefined;
      await this.readBack().catch((error) =>
        logger.debug(`The search for a claim whose answer was lost failed: ${describeError(error)}`),
      );
      if (this.uncertain.size > 0) this.readBackLater();
    };
    this.timer = clock.at(clock.now() + readBackEveryMs, () => void search(), 'background');
  }
}

/** Identifies one claimed workflow. All workflows of one claim have the same owner token. */
export function claimKey({ workflowId, owner }: OwnedWorkflow): string {
  return `${owner} ${workflowId}`;
}

interface RunOptions<T> {
  /** Returns true if the workflow must still run. Called after its history was read. */
  isAwaited(workflowId: string): boolean;
  /** Called for each workflow that cannot be read or run. */
  failed(workflow: T, error: unknown): void;
}

/**
 * Runs workflows again that this process has suspended, or failed to run. Leaves out workflows that have another owner
 * by now. Also leaves out workflows that are no longer awaited when their histories have been read, for example because
 * of a cancellation. A workflow that cannot be read does not delay the others.
 */
export async function reload<T extends OwnedWorkflow>(
  engine: Engine,
  workflows: readonly T[],
  { isAwaited, failed }: RunOptions<T>,
): Promise<void> {
  const { lossCount } = engine.startGate;
  const byId = new Map(workflows.map((workflow) => [workflow.workflowId, workflow]));
  const failedRecord = ({ workflowId }: ClaimedRecord, error: unknown): void => {
    const workflow = byId.get(workflowId);
    if (workflow) failed(workflow, error);
  };
  const readAndRun = async (part: readonly T[]): Promise<void> => {
    const read = () => engine.storage.workflows.owned(part);
    const records = (await engine.untilAnswered('Reading workflows that are due', read)) ?? [];
    await runInSlices(engine, { records, lossCount }, { isAwaited, failed: failedRecord });
  };
  await bisect(workflows, readAndRun, failed);
}

/** Does the work for all items together. After a failure, it repeats each half, until the faulty items are alone. */
async function bisect<T>(
  items: readonly T[],
  work: (part: readonly T[]) => Promise<void>,
  failed: (item: T, error: unknown) => void,
): Promise<void> {
  try {
    await work(items);
  } catch (error) {
    const middle = items.length >> 1;
    if (middle > 0) for (const half of [items.slice(0, middle), items.slice(middle)]) await bisect(half, work, failed);
    else for (const item of items) failed(item, error);
  }
}

/**
 * Reads the histories of claimed workflows and runs the workflows. The histories are read after the claim: by then
 * every checkpoint of a former owner is either committed, and therefore read, or fenced. One statement reads a limited
 * number of histories, because their length is unknown.
 */
async function runInSlices(
  engine: Engine,
  { records, lossCount }: { readonly records: readonly ClaimedRecord[]; readonly lossCount: number },
  { isAwaited, failed }: RunOptions<ClaimedRecord>,
): Promise<void> {
  const runSlice = async (slice: readonly ClaimedRecord[]): Promise<void> => {
    const histories = await readHistories(engine, slice);
    // Since the claim, other executors may have presumed this process dead and taken these workflows. The code that
    // increments `lossCount` drops only lost workflows that are in memory (recovery/drop-lost.ts). The workflows of
    // this slice are not in memory yet, so their owners are read again.
    let own = slice;
    for (let checkedCount = lossCount; engine.startGate.lossCount !== checkedCount; ) {
      checkedCount = engine.startGate.lossCount;
      own = await stillOwned(engine, own);
    }
    for (const record of own.filter(({ workflowId }) => isAwaited(workflowId))) {
      try {
        runRecord(engine, record, histories);
      } catch (error) {
        failed(record, error);
      }
    }
  };
  for (const slice of slicesOf(records)) await bisect(slice, runSlice, failed);
}

async function stillOwned(engine: Engine, records: readonly ClaimedRecord[]): Promise<readonly ClaimedRecord[]> {
  const claims = records.map(({ workflowId, owner }) => ({ workflowId, owner: owner ?? '' }));
  const read = () => engine.storage.workflows.owned(claims);
  const found = await engine.untilAnswered('Checking whether claimed workflows are still claimed', read);
  // The app is closed. `run` hands these workflows over instead of running them.
  if (!found) return records;
  const owned = new Set(found.map((each) => each.workflowId));
  return records.filter(({ workflowId }) => owned.has(workflowId));
}

/** Cuts the records into slices, in order. At most `historiesPerRead` records of a slice have a history. */
function slicesOf(records: readonly ClaimedRecord[]): ClaimedRecord[][] {
  const slices: ClaimedRecord[][] = [];
  let reads = historiesPerRead;
  for (const record of records) {
    if (!record.neverRan) reads++;
    if (reads > historiesPerRead || slices.length === 0) {
      slices.push([]);
      reads = record.neverRan ? 0 : 1;
    }
    slices.at(-1)?.push(record);
  }
  return slices;
}

function runRecord(engine: Engine, record: ClaimedRecord, histories: ReadonlyMap<string, StepRecord[]>): void {
  const definition = engine.registry.require(record);
  const { workflowId, name, createdAt, deadlineAt, inputs, serialization, user, roles, attributes } = record;
  engine.executions.run({
    workflowId,
    name,
    owner: record.owner ?? '',
    attempt: record.attempts,
    createdAt,
    incarnation: record.incarnation,
    seed: record.seed,
    beganAt: record.beganAt,
    retries: record.retries,
    deadlineAt,
    inputs,
    serialization,
    user,
    roles,
    // A caller that enqueued the workflow by name did not know which role the workflow requires.
    assumedRole: roleFor(definition, roles) ?? record.assumedRole,
    attributes,
    parentWorkflowId: record.parentWorkflowId,
    queueName: record.queueName,
    partition: record.partition,
    definition,
    ...(!record.neverRan && { recorded: histories.get(workflowId) ?? [] }),
  });
}

async function readHistories(engine: Engine, claimed: readonly ClaimedRecord[]): Promise<Map<string, StepRecord[]>> {
  const ids = claimed.filter((record) => !record.neverRan).map((record) => record.workflowId);
  if (ids.length === 0) return new Map();
  // No other process takes claimed work, so giving up here would strand it.
  const steps = await engine.untilAnswered('Reading the history of claimed workflows', () =>
    engine.storage.steps.history(ids),
  );
  return groupByWorkflow(steps ?? []);
}

/** Reports a workflow that became a dead letter: in the log, and to the callers in this process that wait for it. */
export function reportDeadLetters(
  engine: Engine,
  record: Pick<ClaimedRecord, 'workflowId' | 'status' | 'attempts' | keyof WorkflowKey>,
): void {
  engine.logger.error(
    `Workflow "${record.workflowId}" (${describeKey(record)}) was given up after ${record.attempts - 1} attempts: ` +
      'MAX_RECOVERY_ATTEMPTS_EXCEEDED. Find out why its processes died, then resume it.',
  );
  const { workflowId, status } = record;
  engine.completionWaiters.settle({
    workflowId,
    status,
    output: null,
    error: null,
    serialization: null,
    statusReason: null,
  });
}

function groupByWorkflow(steps: readonly StepRecord[]): Map<string, StepRecord[]> {
  const grouped = new Map<string, StepRecord[]>();
  for (const step of steps) {
    const own = grouped.get(step.workflowId);
    if (own) own.push(step);
    else grouped.set(step.workflowId, [step]);
  }
  return grouped;
}
