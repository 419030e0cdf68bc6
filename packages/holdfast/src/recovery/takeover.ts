import { reportDeadLetters } from '../engine/claims.js';
import type { Engine } from '../engine/engine.js';
import { internalQueue } from '../model/queues.js';
import type { RecoveryPolicy } from '../model/recovery.js';
import { keyText } from '../model/workflow-key.js';
import type { CancelledWorkflow } from '../storage/contract/storage.js';
import type { DeadExecutor, Free, RecoveryDecision, TakenOver, Takeover } from '../storage/contract/takeovers.js';
import { decisionFor } from './policy.js';

/** How many workflows one statement takes over: many dead ones are dealt with in pieces that nobody has to wait for. */
export const pageSize = 1000;

/** The engine, as far as recovery needs more of it than other features do. */
export type RecoveringEngine = Engine & { wasCancelled(cancelled: CancelledWorkflow): void };

export interface Page {
  readonly putBack: readonly TakenOver[];
  readonly cancelled: readonly (CancelledWorkflow & { readonly name: string })[];
}

/** What is to become of each workflow that this process knows. `adjust` is for those who do not go by the policy alone. */
export function decisions(
  engine: Engine,
  adjust: (policy: RecoveryPolicy) => RecoveryPolicy = (policy) => policy,
): RecoveryDecision[] {
  const now = engine.clock.now();
  return engine.registry.all().map((each) => decisionFor(each, adjust(engine.registry.policyOf(each)), now));
}

/** How often one goes on although a page was empty and more is there: others were taking the same, or holding on to it. */
const maxRounds = 5;

interface Terms {
  readonly free: Free;
  readonly fates: readonly RecoveryDecision[];
  /** Hears of each page. */
  note(page: Page): void;
  /** Whether it is enough. */
  isOver?(): boolean;
  /** Says that there is work on queues. Default: to everyone. */
  announce?(): Promise<void>;
}

/**
 * Takes over all that is free, page by page. What is put back is taken from its queue by whichever process has room for
 * it, and that counts the attempt. Returns what is free still, because it is not this process's to take.
 */
export async function takeOver(engine: RecoveringEngine, terms: Terms): Promise<Left> {
  const resumed = new Set(terms.fates.filter((fate) => fate.resumes).map(keyText));
  for (let round = 1; ; round++) {
    const taken = (await cancelPages(engine, terms)) + (await putBackPages(engine, terms));
    if (taken > 0 && 'executors' in terms.free) await tellFormerOwners(engine, terms.free.executors);
    const left = await engine.storage.takeovers.left(terms.free);
    if (round === maxRounds || terms.isOver?.() || !left.some((each) => resumed.has(keyText(each)))) return left;
  }
}

export type Left = Awaited<ReturnType<RecoveringEngine['storage']['takeovers']['left']>>;

async function cancelPages(engine: RecoveringEngine, terms: Terms): Promise<number> {
  let taken = 0;
  const cancels = terms.fates.some((fate) => fate.tooOld || fate.exceeded !== null || fate.notResumed !== null);
  while (!terms.isOver?.() && cancels) {
    const cancelled = await engine.storage.takeovers.cancel(pageOf(engine, terms));
    if (cancelled.length === 0) break;
    terms.note({ putBack: [], cancelled });
    taken += cancelled.length;
    await tellCancelled(engine, cancelled);
    await letOthersRun();
  }
  return taken;
}

async function putBackPages(engine: RecoveringEngine, terms: Terms): Promise<number> {
  let taken = 0;
  while (!terms.isOver?.() && terms.fates.length > 0) {
    const putBack = await putBackPage(engine, { ...pageOf(engine, terms), queueName: internalQueue });
    if (putBack.length === 0) break;
    taken += putBack.length;
    terms.note({ putBack, cancelled: [] });
    // Of all queues together: who hears of it looks at all of them in one statement, and thoroughly.
    const announce = terms.announce ?? (async () => engine.news.announce('queues'));
    if (putBack.some(({ status }) => status === 'ENQUEUED')) await announce();
    if (putBack.some(({ status }) => status !== 'ENQUEUED')) engine.news.announce('ended');
    for (const each of putBack) if (each.status === 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') reportDeadLetters(engine, each);
    await letOthersRun();
  }
  return taken;
}

/**
 * One that was not dead after all finds out as soon as it hears of it, by its next heartbeat at the latest, and begins nothing
 * more of what it has lost.
 */
async function tellFormerOwners(engine: RecoveringEngine, executors: readonly DeadExecutor[]): Promise<void> {
  const tell = () => engine.storage.executors.tellOfTakeover(executors);
  await engine.untilAnswered('Telling an executor that its work was taken over', tell);
  engine.news.announceToOthers('takeover');
}

/**
 * The lock on a row may be the dying owner's last checkpoint, and is waited for. If it is someone's who does not let go,
 * that row is left to a later round, and the rest goes on.
 */
async function putBackPage({ storage }: Engine, page: Takeover & { readonly queueName: string }): Promise<TakenOver[]> {
  try {
    return await storage.takeovers.putBack(page);
  } catch (error) {
    if (storage.classify(error) !== 'locked') throw error;
    return storage.takeovers.putBack({ ...page, passOverLocked: true });
  }
}

/** SQLite answers without giving up the thread: a hundred pages in a row would be a process that stands still. */
function letOthersRun(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function pageOf({ clock }: Engine, { free, fates: given }: Terms): Takeover {
  return { free, fates: given, now: clock.now(), limit: pageSize };
}

async function tellCancelled(engine: RecoveringEngine, cancelled: readonly CancelledWorkflow[]): Promise<void> {
  for (const each of cancelled) {
    engine.wasCancelled(each);
    if (each.queueName !== null) engine.news.announce(`queue:${each.queueName}`);
  }
  engine.news.announceToOthers('cancelled');
  // A child whose start was committed while its parent was being cancelled was not seen then.
  for (const reason of new Set(cancelled.map((each) => each.reason))) {
    const ids = cancelled.filter((each) => each.reason === reason).map((each) => each.workflowId);
    await engine.cancel(ids, reason);
  }
}
