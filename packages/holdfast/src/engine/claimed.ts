import type { Timer } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import { describeKey, type WorkflowKey } from '../model/workflow-key.js';
import type { Claim, ClaimedRecord, OwnedWorkflow, StepRecord } from '../storage/storage.js';
import type { Engine } from './engine.js';
import { roleFor } from './identity.js';

/** How long a claim whose answer was lost is looked for: its statement may still have been waiting for a lock. */
const uncertainMs = 60_000;
/** How often. */
const lookAgainMs = 1_000;

/** How many histories are read by one statement. */
const historiesAtOnce = 50;

/**
 * Takes work from the database and runs it.
 *
 * **Invariant:** what this process has claimed, it runs. A claim whose connection broke may have been committed: it is
 * looked for under its owner token, because nobody else would ever take work that a live process owns.
 */
export class Claims {
  /** Owner tokens of claims that may or may not have been committed, and until when to look for them. */
  private readonly uncertain = new Map<string, number>();
  private timer: Timer | undefined;
  private stopped = false;

  constructor(private readonly engine: Engine) {}

  /** Whether of each claim it is known what it took. */
  get areCertain(): boolean {
    return this.uncertain.size === 0;
  }

  /** Runs what the statement claims, at most `limit` workflows, on the terms it is given. Returns all it has touched. */
  async take(limit: number, statement: (claim: Claim) => Promise<ClaimedRecord[]>): Promise<ClaimedRecord[]> {
    await this.readBack();
    const { owners, storage, clock, writer, version, registry } = this.engine;
    const { returns } = this.engine.standing;
    const owner = owners.next();
    const claim: Claim = { writer, owner, version, runnable: registry.runnable(), now: clock.now(), limit };
    const claimed = await statement(claim).catch((error) => {
      if (storage.classify(error) === 'lost') this.lookFor(owner);
      throw error;
    });
    await runClaimed(this.engine, claimed, returns);
    return claimed;
  }

  /** Runs what lost claims turn out to have taken. Who plans by what runs here calls it first. */
  async readBack(): Promise<void> {
    const { storage, writer, version, clock, standing } = this.engine;
    for (const [owner, until] of this.uncertain) {
      const { returns } = standing;
      const claimed = await storage.workflows.claimedUnder({ owner, executorId: writer.executorId, version });
      // Another turn of a loop may have found it meanwhile.
      if (!this.uncertain.has(owner)) continue;
      if (claimed.length > 0 || clock.now() > until) this.uncertain.delete(owner);
      await runClaimed(this.engine, claimed, returns);
    }
  }

  /** For good. */
  stop(): void {
    this.stopped = true;
    this.timer?.cancel();
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
      if (!this.areCertain) this.lookLater();
    };
    this.timer = clock.at(clock.now() + lookAgainMs, () => void look(), 'background');
  }
}

/**
 * Runs workflows again that this process has let go of: those that are still its own, and that are still awaited when
 * their histories have been read (a cancellation may have come meanwhile).
 */
export async function bringBack(
  engine: Engine,
  rests: readonly OwnedWorkflow[],
  isAwaited: (workflowId: string) => boolean,
): Promise<void> {
  const { returns } = engine.standing;
  const read = () => engine.storage.workflows.owned(rests);
  const records = (await engine.untilAnswered('Reading workflows that are due', read)) ?? [];
  await runInSlices(engine, { records, returns }, isAwaited);
}

/** Runs workflows that this process has claimed, when it had come back so often. */
async function runClaimed(engine: Engine, claimed: readonly ClaimedRecord[], returns: number): Promise<void> {
  const mine = claimed.filter((record) => record.status === 'PENDING');
  for (const record of claimed) if (record.status === 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') reportDead(engine, record);
  await runInSlices(engine, { records: mine, returns }, () => true);
}

/**
 * The histories of those that may have one are read after the claim: by then every checkpoint of a former owner is either
 * committed, and seen, or fenced. Not of too many by one statement: nobody knows how long they are.
 */
async function runInSlices(
  engine: Engine,
  { records, returns }: { readonly records: readonly ClaimedRecord[]; readonly returns: number },
  isAwaited: (workflowId: string) => boolean,
): Promise<void> {
  for (const slice of slicesOf(records)) {
    const histories = await readHistories(engine, slice);
    // Taken for dead in between, it may have lost them again. What is in memory when it comes back is seen to there.
    const own = engine.standing.returns === returns ? slice : await stillOwned(engine, slice);
    for (const record of own) if (isAwaited(record.workflowId)) runRecord(engine, record, histories);
  }
}

async function stillOwned(engine: Engine, records: readonly ClaimedRecord[]): Promise<readonly ClaimedRecord[]> {
  const claims = records.map(({ workflowId, owner }) => ({ workflowId, owner: owner ?? '' }));
  const read = () => engine.storage.workflows.owned(claims);
  const owned = new Set(
    (await engine.untilAnswered('Reading whether claimed workflows are still claimed', read))?.map(
      (each) => each.workflowId,
    ),
  );
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
export function reportDead(
  engine: Engine,
  record: Pick<ClaimedRecord, 'workflowId' | 'status' | 'attempts' | keyof WorkflowKey>,
): void {
  engine.logger.error(
    `Workflow "${record.workflowId}" (${describeKey(record)}) was given up after ${record.attempts - 1} attempts: ` +
      'MAX_RECOVERY_ATTEMPTS_EXCEEDED. Find out why it does not survive, then resume it.',
  );
  const { workflowId, status } = record;
  engine.outcomes.settle({ workflowId, status, output: null, error: null, serialization: null, statusReason: null });
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
