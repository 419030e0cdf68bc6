import type { Timer } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import { describeKey, type WorkflowKey } from '../model/workflow-key.js';
import type { Claim, ClaimedRecord, OwnedWorkflow, StepRecord } from '../storage/contract/storage.js';
import type { Engine } from './engine.js';
import { roleFor } from './start/authorization.js';

/** How long a claim whose answer was lost is looked for: its statement may still have been waiting for a lock. */
const uncertainMs = 60_000;
/** How often. */
const lookAgainMs = 1_000;

/** How many histories are read by one statement. */
const historiesAtOnce = 50;

/** When one that could not be read is tried again. */
const unreadableMs = 5_000;

/**
 * Takes work from the database and runs it.
 *
 * **Invariant:** what this process has claimed, it runs. A claim whose connection broke may have been committed: it is
 * looked for under its owner token, because nobody else would ever take work that a live process owns.
 */
export class Claims {
  /** Owner tokens of claims that may or may not have been committed, and until when to look for them. */
  private readonly uncertain = new Map<string, number>();
  /** Owner tokens of claims that are being made, or whose histories are being read. */
  private readonly underWay = new Set<string>();
  /** What could not be read and is tried again. */
  private readonly unread = new Map<string, OwnedWorkflow>();
  private timer: Timer | undefined;
  private pauses = 0;
  private stopped = false;

  constructor(private readonly engine: Engine) {}

  /** Whether of each claim it is known what it took, and all of that runs. */
  get areCertain(): boolean {
    return this.uncertain.size === 0 && this.unread.size === 0;
  }

  /** Whether a claim is about to be tried again. */
  get arePausing(): boolean {
    return this.pauses > 0;
  }

  /**
   * Waits until a claim is tried again that another process was ahead of. By no clock of the database: this is between
   * processes, and about no workflow.
   */
  async pause(ms: number): Promise<void> {
    this.pauses++;
    await new Promise((resolve) => setTimeout(resolve, ms));
    this.pauses--;
  }

  /** Whether it is on its way into memory: claimed, or perhaps claimed, and not run yet. */
  isLoading(workflow: OwnedWorkflow): boolean {
    const { owner } = workflow;
    return this.underWay.has(owner) || this.uncertain.has(owner) || this.unread.has(claimKey(workflow));
  }

  /**
   * Runs what the statement claims, at most `limit` workflows, on the terms it is given. Returns all it has touched: nothing,
   * while this process cannot know whether it is heard.
   */
  async take(limit: number, statement: (claim: Claim) => Promise<ClaimedRecord[]>): Promise<ClaimedRecord[]> {
    await this.readBack();
    const { owners, storage, clock, writer, version, registry, startGate } = this.engine;
    // Nothing is sent from here on but the claim itself (see start-gate.ts).
    if (!startGate.isOpen) return [];
    const { lossCount } = startGate;
    const owner = owners.next();
    const claim: Claim = { writer, owner, version, runnable: registry.runnable(), now: clock.now(), limit };
    this.underWay.add(owner);
    try {
      const claimed = await statement(claim).catch((error) => {
        if (storage.classify(error) === 'lost') this.lookFor(owner);
        throw error;
      });
      await this.runClaimed(claimed, lossCount);
      return claimed;
    } finally {
      this.underWay.delete(owner);
    }
  }

  /** Runs what lost claims turn out to have taken. Who plans by what runs here calls it first. */
  async readBack(): Promise<void> {
    const { storage, writer, version, clock, startGate } = this.engine;
    for (const [owner, until] of this.uncertain) {
      const { lossCount } = startGate;
      const claimed = await storage.workflows.claimedUnder({ owner, executorId: writer.executorId, version });
      // Another turn of a loop may have found it meanwhile.
      if (!this.uncertain.has(owner)) continue;
      if (claimed.length > 0 || clock.now() > until) this.uncertain.delete(owner);
      this.underWay.add(owner);
      await this.runClaimed(claimed, lossCount).finally(() => this.underWay.delete(owner));
    }
  }

  /** For good. */
  stop(): void {
    this.stopped = true;
    this.timer?.cancel();
  }

  /** Runs what was claimed when this process had come back so often. */
  private async runClaimed(claimed: readonly ClaimedRecord[], lossCount: number): Promise<void> {
    const { engine } = this;
    const records = claimed.filter((record) => record.status === 'PENDING');
    for (const record of claimed)
      if (record.status === 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') reportDeadLetters(engine, record);
    const failed = ({ workflowId, owner }: ClaimedRecord, error: unknown): void =>
      this.tryLater({ workflowId, owner: owner ?? '' }, 'cannot be read', error);
    await runInSlices(engine, { records, lossCount }, { isAwaited: () => true, failed });
  }

  /** Nobody else would: it is PENDING, and its owner lives. */
  tryLater(workflow: OwnedWorkflow, what: string, error: unknown): void {
    if (this.stopped) return;
    const { clock, logger } = this.engine;
    logger.error(`Workflow "${workflow.workflowId}" ${what}, and is tried again: ${describeError(error)}`);
    const key = claimKey(workflow);
    this.unread.set(key, workflow);
    const retry = async (): Promise<void> => {
      let isOver = true;
      const failed = (each: OwnedWorkflow, again: unknown): void => {
        isOver = false;
        this.tryLater(each, 'cannot be read', again);
      };
      await reload(this.engine, [workflow], { isAwaited: () => !this.stopped, failed });
      if (isOver) this.unread.delete(key);
    };
    clock.at(clock.now() + unreadableMs, () => void retry(), 'background');
  }

  private lookFor(owner: string): void {
    this.uncertain.set(owner, this.engine.clock.now() + uncertainMs);
    this.lookLater();
  }

  /** Also when nobody claims any more: it may have taken the last there was. */
  private lookLater(): void {
    if (this.timer || this.stopped) return;
    const { clock, logger } = this.engine;
    const look = async (): Promise<void> => {
      this.timer = undefined;
      await this.readBack().catch((error) =>
        logger.debug(`A claim whose answer was lost could not be looked for: ${describeError(error)}`),
      );
      if (this.uncertain.size > 0) this.lookLater();
    };
    this.timer = clock.at(clock.now() + lookAgainMs, () => void look(), 'background');
  }
}

/** A claim gives all that it takes the same token. */
export function claimKey({ workflowId, owner }: OwnedWorkflow): string {
  return `${owner} ${workflowId}`;
}

interface Running<T> {
  /** Whether it is still to run when its history has been read. */
  isAwaited(workflowId: string): boolean;
  /** Hears of each that the database does not give, or that cannot be run. */
  failed(workflow: T, error: unknown): void;
}

/**
 * Runs workflows again that this process has let go of: those that are still its own, and that are still awaited when
 * their histories have been read (a cancellation may have come meanwhile). One that cannot be read holds up no other.
 */
export async function reload<T extends OwnedWorkflow>(
  engine: Engine,
  rests: readonly T[],
  { isAwaited, failed }: Running<T>,
): Promise<void> {
  const { lossCount } = engine.startGate;
  const byId = new Map(rests.map((rest) => [rest.workflowId, rest]));
  const failedRecord = ({ workflowId }: ClaimedRecord, error: unknown): void => {
    const rest = byId.get(workflowId);
    if (rest) failed(rest, error);
  };
  const bring = async (part: readonly T[]): Promise<void> => {
    const read = () => engine.storage.workflows.owned(part);
    const records = (await engine.untilAnswered('Reading workflows that are due', read)) ?? [];
    await runInSlices(engine, { records, lossCount }, { isAwaited, failed: failedRecord });
  };
  await apart(rests, bring, failed);
}

/** Does the work for all together; when that fails, for each half, until what is at fault stands alone. */
async function apart<T>(
  items: readonly T[],
  work: (part: readonly T[]) => Promise<void>,
  failed: (item: T, error: unknown) => void,
): Promise<void> {
  try {
    await work(items);
  } catch (error) {
    const middle = items.length >> 1;
    if (middle > 0) for (const half of [items.slice(0, middle), items.slice(middle)]) await apart(half, work, failed);
    else for (const item of items) failed(item, error);
  }
}

/**
 * The histories of those that may have one are read after the claim: by then every checkpoint of a former owner is either
 * committed, and seen, or fenced. Not of too many by one statement: nobody knows how long they are.
 */
async function runInSlices(
  engine: Engine,
  { records, lossCount }: { readonly records: readonly ClaimedRecord[]; readonly lossCount: number },
  { isAwaited, failed }: Running<ClaimedRecord>,
): Promise<void> {
  const runSlice = async (slice: readonly ClaimedRecord[]): Promise<void> => {
    const histories = await readHistories(engine, slice);
    // Taken for dead in between, it may have lost them again. What is in memory when it finds that out is seen to there.
    let own = slice;
    for (let seen = lossCount; engine.startGate.lossCount !== seen; ) {
      seen = engine.startGate.lossCount;
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
  for (const slice of slicesOf(records)) await apart(slice, runSlice, failed);
}

async function stillOwned(engine: Engine, records: readonly ClaimedRecord[]): Promise<readonly ClaimedRecord[]> {
  const claims = records.map(({ workflowId, owner }) => ({ workflowId, owner: owner ?? '' }));
  const read = () => engine.storage.workflows.owned(claims);
  const found = await engine.untilAnswered('Reading whether claimed workflows are still claimed', read);
  // The app is closed, and hands over what it is given now.
  if (!found) return records;
  const owned = new Set(found.map((each) => each.workflowId));
  return records.filter(({ workflowId }) => owned.has(workflowId));
}

/** In their order, with no more than so many in each that have a history to be read. */
function slicesOf(records: readonly ClaimedRecord[]): ClaimedRecord[][] {
  const slices: ClaimedRecord[][] = [];
  let reads = historiesAtOnce;
  for (const record of records) {
    if (!record.neverRan) reads++;
    if (reads > historiesAtOnce || slices.length === 0) {
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
  engine.run({
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
    // Who enqueued it by name did not know which role it requires.
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
  // Claimed work belongs to nobody else: giving up here would strand it.
  const steps = await engine.untilAnswered('Reading the history of claimed workflows', () =>
    engine.storage.steps.history(ids),
  );
  return groupByWorkflow(steps ?? []);
}

/** Says that a workflow was given up, also to whoever waits for it here. */
export function reportDeadLetters(
  engine: Engine,
  record: Pick<ClaimedRecord, 'workflowId' | 'status' | 'attempts' | keyof WorkflowKey>,
): void {
  engine.logger.error(
    `Workflow "${record.workflowId}" (${describeKey(record)}) was given up after ${record.attempts - 1} attempts: ` +
      'MAX_RECOVERY_ATTEMPTS_EXCEEDED. Find out why it does not survive, then resume it.',
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
