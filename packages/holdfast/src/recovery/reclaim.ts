import { Loop } from '../engine/loop.js';
import { handOver } from '../engine/write/hand-over.js';
import type { OwnedWorkflow } from '../storage/contract/storage.js';
import type { RunningEngine } from './drop-lost.js';

const defaultEveryMs = 4_000;

/**
 * Number of checks in a row that must find a workflow to be missing in memory. One check may also find a workflow that
 * has just ended, or that is about to be loaded.
 */
const checksNeeded = 4;

/** One in this many runs of the loop makes a routine check, which needs no lost connection and no refused row. */
const runsPerCheck = 15;

/** A routine check takes at most this share of the time, because an executor may have very many workflows. */
const maxShareOfTime = 1 / 500;

/** How long to retry handing over the workflows that were found. */
const retryForMs = 10_000;

/**
 * Hands over workflows that are PENDING under an owner token of this process, but do not run in it. They exist when a
 * database lost its last commits (a failover to a standby that lacked them). Before the failover such a workflow ended
 * here, or another process took it over. Now it is PENDING again under a live process that no longer runs it, so no
 * other process would ever take it.
 *
 * The check runs after a lost connection, and after a row was refused because its predecessors are missing
 * (restored-database.ts). Otherwise it runs once a minute, because nothing else detects a restore that loses less than
 * a heartbeat. A wrong result does no harm: the fence protects the workflow as in any other takeover.
 */
export function reclaim(engine: RunningEngine, everyMs = defaultEveryMs): Loop {
  let breaksSeen = 0;
  let checksLeft = 0;
  let runsLeft = runsPerCheck;
  /** How many checks in a row have found each workflow. */
  let suspects = new Map<string, number>();
  const runOnce = async (): Promise<void> => {
    const breaks = engine.storage.lostConnections() + engine.startGate.rollbackCount;
    if (breaks !== breaksSeen) [breaksSeen, checksLeft] = [breaks, checksNeeded];
    if (checksLeft === 0 && --runsLeft > 0) return;
    const isRoutine = checksLeft === 0;
    if (isRoutine) checksLeft = 1;
    const began = performance.now();
    const found = await missingInMemory(engine);
    runsLeft = Math.max(runsPerCheck, Math.ceil((performance.now() - began) / maxShareOfTime / everyMs));
    suspects = new Map(found.map((each) => [keyOf(each), (suspects.get(keyOf(each)) ?? 0) + 1]));
    const certain = found.filter((each) => (suspects.get(keyOf(each)) ?? 0) >= checksNeeded);
    if (certain.length > 0) await giveBack(engine, certain);
    // The count goes down only after a check was answered, and only if no suspect is left. After the first routine
    // check every found workflow is a suspect. After later checks only a workflow that was found twice is a suspect,
    // because in a busy process some workflows end during each check.
    const isUnfinished = isRoutine ? found.length > 0 : [...suspects.values()].some((times) => times > 1);
    if (!isUnfinished) checksLeft--;
  };
  const { clock, logger } = engine;
  return new Loop({ name: 'The check for workflows that do not run here', everyMs, clock, logger, runOnce });
}

/** Returns the workflows that are PENDING under a token of this process, and that this process does not have. */
export async function missingInMemory(engine: RunningEngine): Promise<OwnedWorkflow[]> {
  const { storage, writer, owners, version } = engine;
  const { executorId } = writer;
  const found = await storage.takeovers.pendingUnder({ executorId, version, incarnation: owners.incarnation });
  // Memory is read after the database, so a workflow that was loaded in between counts as held. A workflow that is
  // being started or claimed counts as held, too: its answer or its history may arrive only after a connection
  // timeout. If such a workflow were handed over, it would run here and in another process.
  const held = new Set([...engine.executions.inMemory.values()].map(({ claim }) => keyOf(claim)));
  for (const suspended of engine.executions.allSuspended) held.add(keyOf(suspended));
  const isLoading = (each: OwnedWorkflow): boolean =>
    engine.claims.isLoading(each) || engine.checkpoints.isStarting(each.owner);
  return found.filter((each) => !held.has(keyOf(each)) && !isLoading(each));
}

async function giveBack(engine: RunningEngine, lost: readonly OwnedWorkflow[]): Promise<void> {
  const isOne = lost.length === 1;
  const subject = isOne ? `Workflow "${lost[0]?.workflowId}" is` : `${lost.length} workflows are`;
  engine.logger.warn(
    `${subject} recorded as running in this process, but ${isOne ? 'does' : 'do'} not run here: the database came ` +
      `back without its last commits. ${isOne ? 'It continues' : 'They continue'} from the recorded steps.`,
  );
  await handOver(engine, lost, retryForMs);
  engine.news.announce('queues');
}

function keyOf({ workflowId, owner }: OwnedWorkflow): string {
  return `${owner} ${workflowId}`;
}
