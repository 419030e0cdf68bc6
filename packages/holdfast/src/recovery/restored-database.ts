import type { Execution } from '../engine/execution/execution.js';
import { describeError } from '../model/errors.js';
import { internalQueue } from '../model/queues.js';
import { type OwnedWorkflow, type StepState, stepKey } from '../storage/contract/storage.js';
import type { RunningEngine } from './drop-lost.js';
import { missingInMemory } from './reclaim.js';

/** How many workflows one statement reads or hands over. */
const pageSize = 1_000;

/** Maximum number of IDs in a log line, and of log lines for one event. */
const idsPerLine = 50;
const maxLines = 20;

/**
 * Handles a database that went back in time: it was restored from a backup under live processes, or a standby took
 * over that lacks the last commits. The memory of this process is then ahead of the database. Its workflows must run
 * again from their recorded steps.
 *
 * There are two signs:
 *
 * - A heartbeat finds a lower number than one that was answered before (liveness.ts). Then all workflows of this
 *   process are parked: their code stops, and sees no error.
 * - The database refuses a row because its predecessors are missing (storage/sql/predecessors.ts). This also detects a
 *   loss of less than one heartbeat. Then the execution of that row is parked, and the other executions are checked.
 *
 * A parked workflow goes back to its queue, and any process with capacity claims it under a new owner token. The old
 * token cannot be reused: a row of the parked execution may still be in flight, and would be written under that token
 * after the history was read. That step would then run again, and have two outcomes.
 */
export class RestoredDatabase {
  private behind: OwnedWorkflow[] = [];
  private gone: string[] = [];
  private parking: Promise<void> | undefined;

  constructor(
    private readonly engine: RunningEngine,
    /** Registers again what this process registered at its launch, and reads its cached data again. */
    private readonly reread: () => Promise<void>,
  ) {}

  /** Called when a row of this workflow was refused because earlier steps are missing. Its execution is parked. */
  noteBehind({ workflowId, owner }: OwnedWorkflow): void {
    this.behind.push({ workflowId, owner });
    // One statement may refuse rows of several workflows. They are handled together.
    if (this.behind.length > 1) return;
    const failed = (error: unknown): void => {
      // The workflows stay PENDING under their tokens, so reclaim.ts finds them.
      this.engine.logger.error(`Workflows that lost steps could not be handed over yet: ${describeError(error)}`);
    };
    setImmediate(() => this.handleBehind().catch(failed));
  }

  /** Called when a workflow that ran here is no longer in the database. Callers that wait for it get an error. */
  noteGone(workflowId: string): void {
    this.gone.push(workflowId);
    if (this.gone.length > 1) return;
    setImmediate(() => {
      this.logLost(this.gone.splice(0));
      // Other workflows that ended here may be PENDING again.
      this.engine.startGate.rollbackCount++;
    });
  }

  /** Parks all workflows of this process. Resolves when no workflow in memory is ahead of the database. */
  parkAll(why: string): Promise<void> {
    this.parking ??= this.parkOnce(why).finally(() => {
      this.parking = undefined;
    });
    return this.parking;
  }

  private async handleBehind(): Promise<void> {
    const { engine } = this;
    const behind = this.behind.splice(0);
    this.logBehind(behind.map(({ workflowId }) => workflowId));
    // Makes reclaim.ts search for workflows that ended here and are PENDING again.
    engine.startGate.rollbackCount++;
    await this.handOver(behind);
    if (await isAnyBehind(engine)) return this.parkAll('committed results are missing');
    await this.reread();
  }

  private async parkOnce(why: string): Promise<void> {
    const { engine } = this;
    // The count changes in the same event loop turn as the parking: a workflow that is loaded after this turn checks
    // its owner itself.
    engine.startGate.lossCount++;
    engine.startGate.rollbackCount++;
    const parked = [
      ...[...engine.executions.inMemory.values()].map(({ claim }) => claim),
      ...engine.executions.allSuspended,
    ];
    engine.logger.warn(
      `The database has gone back in time: ${why}. It was restored from a backup, or a standby without the last ` +
        `commits took over. The ${parked.length} unfinished workflows of this process continue from their recorded ` +
        'steps.',
    );
    const held = parked.map(({ workflowId, owner }) => ({ workflowId, owner }));
    const results = lastResults(engine);
    for (const { workflowId, owner } of held)
      engine.executions.supersede(workflowId, owner, { owner: null, status: 'PENDING' });
    await this.logMissing(held);
    this.logBehind((await lostResults(engine, results)).map(({ result }) => result.workflowId));
    const found = await engine.untilAnswered('Reading the workflows of this process', () => missingInMemory(engine));
    const before = new Set(held.map(({ workflowId }) => workflowId));
    const ended = (found ?? []).filter(({ workflowId }) => !before.has(workflowId));
    this.log(
      ended.map(({ workflowId }) => workflowId),
      (count) => `${count} had ended in this process, but the database lost the outcome. Running again`,
    );
    await this.handOver(found ?? []);
    await this.reread();
  }

  private async handOver(owned: readonly OwnedWorkflow[]): Promise<void> {
    const { engine } = this;
    for (let from = 0; from < owned.length; from += pageSize) {
      const page = owned.slice(from, from + pageSize);
      const release = () =>
        engine.storage.workflows.release({ owned: page, queueName: internalQueue, now: engine.clock.now() });
      await engine.untilAnswered('Handing over workflows after the database went back in time', release);
    }
    engine.news.announce('queues');
  }

  /**
   * Logs workflows that are missing in the database. Callers that wait for one get an error by
   * engine/wait/completion-waiters.ts.
   */
  private async logMissing(held: readonly OwnedWorkflow[]): Promise<void> {
    const { engine } = this;
    const lost: string[] = [];
    for (let from = 0; from < held.length; from += pageSize) {
      const ids = held.slice(from, from + pageSize).map(({ workflowId }) => workflowId);
      const read = () => engine.storage.workflows.get(ids);
      const found = await engine.untilAnswered('Reading workflows after the database went back in time', read);
      const known = new Set((found ?? []).map(({ workflowId }) => workflowId));
      if (found) lost.push(...ids.filter((id) => !known.has(id)));
    }
    this.logLost(lost);
  }

  private logBehind(ids: readonly string[]): void {
    this.log(
      [...new Set(ids)],
      (count) =>
        `${count} lost steps that were on record: the database came back without its last commits (a failover, or a ` +
        'restored backup). These steps run again',
    );
  }

  private logLost(ids: readonly string[]): void {
    this.log(
      ids,
      (count) =>
        `${count} could not be found: the database came back without its last commits, or another process cancelled ` +
        'and deleted the workflow. If you still need a workflow, start it again',
    );
  }

  private log(ids: readonly string[], what: (count: string) => string): void {
    const lines = Math.min(maxLines, Math.ceil(ids.length / idsPerLine));
    for (let line = 0; line < lines; line++) {
      const named = ids.slice(line * idsPerLine, (line + 1) * idsPerLine);
      const unnamed = line === lines - 1 ? ids.length - (line * idsPerLine + named.length) : 0;
      const more = unnamed > 0 ? `, and ${unnamed} more` : '';
      const count = named.length + unnamed === 1 ? '1 workflow' : `${named.length + unnamed} workflows`;
      this.engine.logger.warn(`${what(count)}: ${named.map((id) => `"${id}"`).join(', ')}${more}.`);
    }
  }
}

/** A committed result that the next row of a workflow would name as its predecessor. */
interface CommittedResult extends OwnedWorkflow {
  readonly stepNumber: number;
  readonly seq: number;
}

/** Returns the last committed results of the workflows of this process. They imply all earlier results. */
function lastResults({ executions }: RunningEngine): CommittedResult[] {
  const running = [...executions.inMemory.values()].map(({ claim, frontier }: Execution) => ({ claim, frontier }));
  const suspended = executions.allSuspended.map((claim) => ({ claim, frontier: claim.frontier }));
  return [...running, ...suspended].flatMap(({ claim: { workflowId, owner }, frontier }) =>
    frontier.results.map(({ step, seq }) => ({ workflowId, owner, stepNumber: step, seq })),
  );
}

/** Returns the results that the database lost, with the current state of their workflow. Lost workflows are left out. */
async function lostResults(engine: RunningEngine, results: readonly CommittedResult[]) {
  const lost: { readonly result: CommittedResult; readonly now: StepState }[] = [];
  for (let from = 0; from < results.length; from += pageSize) {
    const page = results.slice(from, from + pageSize);
    const read = () => engine.storage.steps.states(page);
    const found = (await engine.untilAnswered('Checking whether committed results are still there', read)) ?? [];
    const current = new Map(found.map((each) => [stepKey(each), each]));
    for (const result of page) {
      const now = current.get(stepKey(result));
      if (now && now.completionSeq !== result.seq) lost.push({ result, now });
    }
  }
  return lost;
}

/** Returns true if a workflow that this process still owns lacks a result that was committed before. */
async function isAnyBehind(engine: RunningEngine): Promise<boolean> {
  const lost = await lostResults(engine, lastResults(engine));
  return lost.some(({ result, now }) => now.owner === result.owner && now.status === 'PENDING');
}
