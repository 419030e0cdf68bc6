import type { Execution } from '../engine/execution/execution.js';
import type { Frontier } from '../engine/execution/frontier.js';
import { internalQueue } from '../model/queues.js';
import { type OwnedWorkflow, stepKey } from '../storage/contract/storage.js';
import { type Holder, unheld } from './reclaim.js';

/** How many workflows one statement reads or gives back. */
const pageSize = 1_000;

/** How many IDs a line of the log names, and how many lines there are of one event. */
const idsPerLine = 50;
const maxLines = 20;

type Resting = OwnedWorkflow & { readonly frontier: Frontier };
type Engined = Omit<Holder, 'suspendedWorkflows'> & { suspendedWorkflows(): readonly Resting[] };

/**
 * A database that went back in time: it was restored from a backup under live processes, or a standby took over that lacks
 * the last commits. What this process knows of its workflows is not on record then, and they are run again from the record.
 *
 * Two things show it. A heartbeat finds a lower number than one that was answered before (liveness.ts): then everything of
 * this process is parked. Or a row is refused because its predecessors are not on record (storage/sql/predecessors.ts), even
 * where less was lost than a heartbeat tells: its execution is parked, and the others are looked at.
 *
 * What is parked goes back to its queue, and is claimed anew, by whichever process has room. It does not come back under its
 * owner token: a row of the parked execution may still be on its way, and would land under that token after the history was
 * read. That step would be run again, and have two outcomes.
 */
export class RestoredDatabase {
  private behind: OwnedWorkflow[] = [];
  private gone: string[] = [];
  private underWay: Promise<void> | undefined;

  constructor(
    private readonly engine: Engined,
    /** Reads anew what else this process knows of the database, and puts back what it registered at its launch. */
    private readonly reread: () => Promise<void>,
  ) {}

  /** A row of this workflow was refused, and its execution is parked: what it has done before is not on record. */
  noteBehind({ workflowId, owner }: OwnedWorkflow): void {
    this.behind.push({ workflowId, owner });
    // Together with what else one statement refused.
    if (this.behind.length === 1) setImmediate(() => void this.seeTo());
  }

  /** A workflow that ran here is not on record any more. Whoever waits for it is told. */
  noteGone(workflowId: string): void {
    this.gone.push(workflowId);
    if (this.gone.length > 1) return;
    setImmediate(() => {
      this.sayLost(this.gone.splice(0));
      // Something else may be unfinished again.
      this.engine.startGate.rollbackCount++;
    });
  }

  /** Resolves when nothing that this process holds is ahead of the record any more. One at a time. */
  all(why: string): Promise<void> {
    this.underWay ??= this.parkAll(why).finally(() => {
      this.underWay = undefined;
    });
    return this.underWay;
  }

  private async seeTo(): Promise<void> {
    const { engine } = this;
    const behind = this.behind.splice(0);
    this.say(
      behind.map(({ workflowId }) => workflowId),
      (count) =>
        `${count} lost steps that were on record: the database came back without its last commits (a failover, or a ` +
        'backup that was restored). Those steps are run again',
    );
    // Also what has ended here and is PENDING again.
    engine.startGate.rollbackCount++;
    await this.giveBack(behind);
    if (await isAnyBehind(engine)) return this.all('results that were confirmed are not on record any more');
    await this.reread();
  }

  private async parkAll(why: string): Promise<void> {
    const { engine } = this;
    // In one turn with the parking: what is being started or claimed, and comes into memory later, looks for itself first.
    engine.startGate.lossCount++;
    engine.startGate.rollbackCount++;
    const parked = [...[...engine.inMemory.values()].map(({ claim }) => claim), ...engine.suspendedWorkflows()];
    engine.logger.warn(
      `The database has gone back in time: ${why}. It was restored from a backup, or a standby took over that lacks the ` +
        `last commits. The ${parked.length} unfinished workflows of this process go on from what is on record.`,
    );
    const held = parked.map(({ workflowId, owner }) => ({ workflowId, owner }));
    for (const { workflowId, owner } of held) engine.superseded(workflowId, owner, { owner: null, status: 'PENDING' });
    await this.tellOfLost(held);
    const found = await engine.untilAnswered('Looking for what this process runs by the record', () => unheld(engine));
    const before = new Set(held.map(({ workflowId }) => workflowId));
    const ended = (found ?? []).filter(({ workflowId }) => !before.has(workflowId));
    this.say(
      ended.map(({ workflowId }) => workflowId),
      (count) => `${count} had ended in this process, by a record that is lost: unfinished again, and run again`,
    );
    await this.giveBack(found ?? []);
    await this.reread();
  }

  private async giveBack(owned: readonly OwnedWorkflow[]): Promise<void> {
    const { engine } = this;
    for (let from = 0; from < owned.length; from += pageSize) {
      const page = owned.slice(from, from + pageSize);
      const release = () =>
        engine.storage.workflows.release({ owned: page, queueName: internalQueue, now: engine.clock.now() });
      await engine.untilAnswered('Giving back workflows whose record has gone back in time', release);
    }
    engine.news.announce('queues');
  }

  /** Whoever waits for one of them is told by the look for its outcome, which does not find it (engine/wait/completion-waiters.ts). */
  private async tellOfLost(held: readonly OwnedWorkflow[]): Promise<void> {
    const { engine } = this;
    const lost: string[] = [];
    for (let from = 0; from < held.length; from += pageSize) {
      const ids = held.slice(from, from + pageSize).map(({ workflowId }) => workflowId);
      const read = () => engine.storage.workflows.get(ids);
      const found = await engine.untilAnswered('Looking for workflows in a database that has gone back', read);
      const known = new Set((found ?? []).map(({ workflowId }) => workflowId));
      if (found) lost.push(...ids.filter((id) => !known.has(id)));
    }
    this.sayLost(lost);
  }

  private sayLost(ids: readonly string[]): void {
    this.say(
      ids,
      (count) =>
        `${count} not on record any more, and will not go on: the database came back without them, or they were cancelled and ` +
        'deleted elsewhere. Start them again if they matter',
    );
  }

  private say(ids: readonly string[], what: (count: string) => string): void {
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

/** Whether a result that this process has seen committed is missing in the record of a workflow that is still its own. */
async function isAnyBehind(engine: Engined): Promise<boolean> {
  const held: { workflowId: string; owner: string; frontier: Frontier }[] = [
    ...[...engine.inMemory.values()].map(({ claim, frontier }: Execution) => ({ ...ownedBy(claim), frontier })),
    ...engine.suspendedWorkflows().map((rest) => ({ ...ownedBy(rest), frontier: rest.frontier })),
  ];
  const named = held.flatMap(({ workflowId, owner, frontier }) =>
    frontier.results.map(({ step, seq }) => ({ workflowId, owner, stepNumber: step, seq })),
  );
  for (let from = 0; from < named.length; from += pageSize) {
    const page = named.slice(from, from + pageSize);
    const read = () => engine.storage.steps.states(page);
    const found = (await engine.untilAnswered('Looking whether results are still on record', read)) ?? [];
    const standing = new Map(found.map((each) => [stepKey(each), each]));
    const isMissing = (each: (typeof page)[number]): boolean => {
      const now = standing.get(stepKey(each));
      return now?.owner === each.owner && now.status === 'PENDING' && now.completionSeq !== each.seq;
    };
    if (page.some(isMissing)) return true;
  }
  return false;
}

function ownedBy({ workflowId, owner }: OwnedWorkflow): OwnedWorkflow {
  return { workflowId, owner };
}
