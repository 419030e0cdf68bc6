import { reportDeadLetters } from '../engine/claims.js';
import type { Engine } from '../engine/engine.js';
import { internalQueue } from '../model/queues.js';
import type { RecoveryPolicy } from '../model/recovery.js';
import { keyText } from '../model/workflow-key.js';
import type { CancelledWorkflow } from '../storage/contract/storage.js';
import type { DeadExecutor, FreeWork, RecoveryDecision, TakenOver, Takeover } from '../storage/contract/takeovers.js';
import { decisionFor } from './policy.js';

/** How many workflows one statement takes over. Small statements do not make other work wait. */
export const pageSize = 1000;

/** The result of one statement of a takeover. */
export interface Page {
  readonly putBack: readonly TakenOver[];
  readonly cancelled: readonly (CancelledWorkflow & { readonly name: string })[];
}

/** Returns the decision for each workflow that is registered in this process. `adjust` changes the policies first. */
export function decisions(
  engine: Engine,
  adjust: (policy: RecoveryPolicy) => RecoveryPolicy = (policy) => policy,
): RecoveryDecision[] {
  const now = engine.clock.now();
  return engine.registry.all().map((each) => decisionFor(each, adjust(engine.registry.policyOf(each)), now));
}

/**
 * Maximum number of rounds. A round ends at an empty page. Work may be left then, because other processes were taking
 * over the same rows, or had them locked.
 */
const maxRounds = 5;

interface TakeoverParams {
  readonly free: FreeWork;
  readonly decisions: readonly RecoveryDecision[];
  /** Called with the result of each statement. */
  note(page: Page): void;
  /** Returns true if the takeover is to stop. */
  isOver?(): boolean;
  /** Announces work on queues. Default: to this process and all others. */
  announce?(): Promise<void>;
}

/**
 * Takes over all free work, page by page. Workflows that are put back go to a queue. The process that claims them
 * there counts the attempt. Returns the work that is still free, because this process may not take it over.
 */
export async function takeOver(engine: Engine, params: TakeoverParams): Promise<Left> {
  const resumed = new Set(params.decisions.filter((decision) => decision.resumes).map(keyText));
  for (let round = 1; ; round++) {
    const taken = (await cancelPages(engine, params)) + (await putBackPages(engine, params));
    if (taken > 0 && 'executors' in params.free) await notifyFormerOwners(engine, params.free.executors);
    const left = await engine.storage.takeovers.left(params.free);
    if (round === maxRounds || params.isOver?.() || !left.some((each) => resumed.has(keyText(each)))) return left;
  }
}

/** Work that was free, but was not taken over: by workflow name, with a count. */
export type Left = Awaited<ReturnType<Engine['storage']['takeovers']['left']>>;

async function cancelPages(engine: Engine, params: TakeoverParams): Promise<number> {
  let taken = 0;
  const cancels = params.decisions.some(
    ({ tooOld, exceeded, notResumed }) => tooOld || exceeded !== null || notResumed !== null,
  );
  while (!params.isOver?.() && cancels) {
    const cancelled = await engine.storage.takeovers.cancel(pageOf(engine, params));
    if (cancelled.length === 0) break;
    params.note({ putBack: [], cancelled });
    taken += cancelled.length;
    await announceCancelled(engine, cancelled);
    await yieldToEventLoop();
  }
  return taken;
}

async function putBackPages(engine: Engine, params: TakeoverParams): Promise<number> {
  let taken = 0;
  while (!params.isOver?.() && params.decisions.length > 0) {
    const putBack = await putBackPage(engine, { ...pageOf(engine, params), queueName: internalQueue });
    if (putBack.length === 0) break;
    taken += putBack.length;
    params.note({ putBack, cancelled: [] });
    // One notification for all queues: its receivers check all of them with one statement.
    const announce = params.announce ?? (async () => engine.news.announce('queues'));
    if (putBack.some(({ status }) => status === 'ENQUEUED')) await announce();
    if (putBack.some(({ status }) => status !== 'ENQUEUED')) engine.news.announce('ended');
    for (const each of putBack) if (each.status === 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') reportDeadLetters(engine, each);
    await yieldToEventLoop();
  }
  return taken;
}

/**
 * Records the takeover for the former owners. An owner that is alive after all learns of it by the notification, or by
 * its next heartbeat at the latest. Then it starts no more steps of the workflows that it lost.
 */
async function notifyFormerOwners(engine: Engine, executors: readonly DeadExecutor[]): Promise<void> {
  const record = () => engine.storage.executors.recordTakeover(executors);
  await engine.untilAnswered('Recording that work of an executor was taken over', record);
  engine.news.announceToOthers('takeover');
}

/**
 * Puts one page back. A locked row may be under the last checkpoint of the dying owner, so the first statement waits
 * for the lock. If another session keeps the lock, the second statement leaves that row to a later round.
 */
async function putBackPage({ storage }: Engine, page: Takeover & { readonly queueName: string }): Promise<TakenOver[]> {
  try {
    return await storage.takeovers.putBack(page);
  } catch (error) {
    if (storage.classify(error) !== 'locked') throw error;
    return storage.takeovers.putBack({ ...page, passOverLocked: true });
  }
}

/**
 * Lets other work of the event loop run. SQLite answers synchronously, so a hundred pages in a row would block the
 * process.
 */
function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function pageOf({ clock }: Engine, { free, decisions: given }: TakeoverParams): Takeover {
  return { free, decisions: given, now: clock.now(), limit: pageSize };
}

async function announceCancelled(engine: Engine, cancelled: readonly CancelledWorkflow[]): Promise<void> {
  for (const each of cancelled) {
    engine.cancellations.handle(each);
    if (each.queueName !== null) engine.news.announce(`queue:${each.queueName}`);
  }
  engine.news.announceToOthers('cancelled');
  // Race: the start of a child may commit while its parent is cancelled. That cancellation misses the child, and this
  // one finds it.
  for (const reason of new Set(cancelled.map((each) => each.reason))) {
    const ids = cancelled.filter((each) => each.reason === reason).map((each) => each.workflowId);
    await engine.cancellations.cancel(ids, reason);
  }
}
