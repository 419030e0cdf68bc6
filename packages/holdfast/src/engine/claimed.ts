import type { Timer } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import { describeKey } from '../model/workflow-key.js';
import type { Claim, ClaimedRecord, OwnedWorkflow, StepRecord } from '../storage/storage.js';
import type { Engine } from './engine.js';
import { roleFor } from './identity.js';

/** How long a claim whose answer was lost is looked for: its statement may still have been waiting for a lock. */
const uncertainMs = 60_000;
/** How often. */
const lookAgainMs = 1_000;

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
    const owner = owners.next();
    const claim: Claim = { writer, owner, version, runnable: registry.runnable(), now: clock.now(), limit };
    const claimed = await statement(claim).catch((error) => {
      if (storage.classify(error) === 'lost') this.lookFor(owner);
      throw error;
    });
    await runClaimed(this.engine, claimed);
    return claimed;
  }

  /** Runs what lost claims turn out to have taken. Who plans by what runs here calls it first. */
  async readBack(): Promise<void> {
    const { storage, writer, version, clock } = this.engine;
    for (const [owner, until] of this.uncertain) {
      const claimed = await storage.workflows.claimedUnder({ owner, executorId: writer.executorId, version });
      // Another turn of a loop may have found it meanwhile.
      if (!this.uncertain.has(owner)) continue;
      if (claimed.length > 0 || clock.now() > until) this.uncertain.delete(owner);
      await runClaimed(this.engine, claimed);
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
  const read = () => engine.storage.workflows.owned(rests);
  const records = (await engine.untilAnswered('Reading workflows that are due', read)) ?? [];
  const histories = await readHistories(engine, records);
  for (const record of records) if (isAwaited(record.workflowId)) runRecord(engine, record, histories);
}

/**
 * Runs workflows that this process has claimed. The histories of those that may have one are read in one statement,
 * after the claim: by then every checkpoint of a former owner is either committed, and seen, or fenced.
 */
async function runClaimed(engine: Engine, claimed: readonly ClaimedRecord[]): Promise<void> {
  const mine = claimed.filter((record) => record.status === 'PENDING');
  for (const record of claimed) if (record.status === 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') reportDead(engine, record);
  if (mine.length === 0) return;
  const histories = await readHistories(engine, mine);
  for (const record of mine) runRecord(engine, record, histories);
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

function reportDead(engine: Engine, record: ClaimedRecord): void {
  engine.logger.error(
    `Workflow "${record.workflowId}" (${describeKey(record)}) was given up after ${record.attempts - 1} attempts: ` +
      'MAX_RECOVERY_ATTEMPTS_EXCEEDED. Find out why it does not survive, then resume it.',
  );
  engine.outcomes.settle({ ...record, output: null, error: null, statusReason: null });
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
