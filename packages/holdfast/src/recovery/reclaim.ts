import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { Loop } from '../engine/loop.js';
import { handOver } from '../engine/write/hand-over.js';
import type { OwnedWorkflow } from '../storage/contract/storage.js';

const defaultEveryMs = 4_000;

/**
 * So many looks in a row must find a workflow to be nobody's: some have just ended, or are a moment from being in memory.
 */
const looksNeeded = 4;

/** Without a reason to doubt the record, each so many turns make one look. */
const turnsApart = 15;

/** Such a look takes at most this part of the time: an executor may have very many workflows. */
const shareOfTime = 1 / 500;

/** How long it goes on trying to give back what it found. */
const patienceMs = 10_000;

export type Holder = Engine & {
  readonly inMemory: ReadonlyMap<string, Execution>;
  suspendedWorkflows(): readonly OwnedWorkflow[];
};

/**
 * Gives back what is on record as running in this process, and is not. That happens when a database comes back without
 * its last commits (a failover to a standby that lacked them): the workflow had ended here, or been taken over by another
 * process, and is PENDING again under a process that lives and has let go of it. Nobody else would ever take it.
 *
 * It looks after a connection was lost, or a row was refused for want of its predecessors (restored-database.ts), and otherwise once a
 * minute: a restore that loses less than a heartbeat is seen by nothing else. Whatever it is wrong about is fenced like any other
 * takeover.
 */
export function reclaim(engine: Holder, everyMs = defaultEveryMs): Loop {
  let lookedAfter = 0;
  let looksLeft = 0;
  let turnsLeft = turnsApart;
  let suspects = new Map<string, number>();
  const runOnce = async (): Promise<void> => {
    const breaks = engine.storage.breaks() + engine.startGate.rollbackCount;
    if (breaks !== lookedAfter) [lookedAfter, looksLeft] = [breaks, looksNeeded];
    if (looksLeft === 0 && --turnsLeft > 0) return;
    const isFirst = looksLeft === 0;
    if (isFirst) looksLeft = 1;
    const began = performance.now();
    const found = await unheld(engine);
    turnsLeft = Math.max(turnsApart, Math.ceil((performance.now() - began) / shareOfTime / everyMs));
    suspects = new Map(found.map((each) => [keyOf(each), (suspects.get(keyOf(each)) ?? 0) + 1]));
    const certain = found.filter((each) => (suspects.get(keyOf(each)) ?? 0) >= looksNeeded);
    if (certain.length > 0) await giveBack(engine, certain);
    // Not before it was answered, and not while something is left that may have to be given back: what was found twice. In a
    // process that is busy each look finds what ends while it looks.
    const isLeft = isFirst ? found.length > 0 : [...suspects.values()].some((times) => times > 1);
    if (!isLeft) looksLeft--;
  };
  const { clock, logger } = engine;
  return new Loop({ name: 'Looking for work that this process has let go of', everyMs, clock, logger, runOnce });
}

/** What is PENDING under a token of this process that nothing in it holds. */
export async function unheld(engine: Holder): Promise<OwnedWorkflow[]> {
  const { storage, writer, owners, version } = engine;
  const { executorId } = writer;
  const found = await storage.takeovers.pendingUnder({ executorId, version, incarnation: owners.incarnation });
  // After the look: what came to be held meanwhile is held. So is what has been started or claimed here and is not in
  // memory yet: the answer, or its history, may take as long as a connection that is a black hole is waited for. Given
  // back, it would run once more when that comes.
  const held = new Set([...engine.inMemory.values()].map(({ claim }) => keyOf(claim)));
  for (const rest of engine.suspendedWorkflows()) held.add(keyOf(rest));
  const isComing = (each: OwnedWorkflow): boolean =>
    engine.claims.isLoading(each) || engine.checkpoints.isStarting(each.owner);
  return found.filter((each) => !held.has(keyOf(each)) && !isComing(each));
}

async function giveBack(engine: Holder, lost: readonly OwnedWorkflow[]): Promise<void> {
  const which = lost.length === 1 ? `Workflow "${lost[0]?.workflowId}" is` : `${lost.length} workflows are`;
  engine.logger.warn(
    `${which} on record as running in this process, which has let go of them: the database came back without its last ` +
      'commits. They go on from what is on record.',
  );
  await handOver(engine, lost, patienceMs);
  engine.news.announce('queues');
}

function keyOf({ workflowId, owner }: OwnedWorkflow): string {
  return `${owner} ${workflowId}`;
}
