import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import type { RecoverySettings } from '../model/recovery.js';
import type { WorkflowKey } from '../model/workflow-key.js';
import type { ExecutorRecord } from '../storage/contract/executors.js';
import type {
  DeadExecutor,
  FreeWork,
  IncompleteFilter,
  IncompleteRecord,
  RecoveryDecision,
} from '../storage/contract/takeovers.js';
import type { Death } from './dead-executor-detector.js';
import { incarnationOf, type Knowledge, ownerOf, planHere } from './incomplete.js';
import { forcedPolicy, type RecoveryPlan } from './policy.js';
import { warnOfUnknownExecutors, warnOfUnrecovered } from './recover-warnings.js';
import { RecoveryLog } from './recovery-log.js';
import { type SweepReport, Tally } from './report.js';
import { decisions, type Left, type Page, pageSize, takeOver } from './takeover.js';
import { warnOfUnknownExecutorsWork } from './unknown-executors.js';

/** Delay before retrying to take over work whose function was not registered. */
const retryMs = 1000;

/** How often recovery searches for dead executors. A death that this process detects is handled at once. */
const searchEveryMs = 5000;

/**
 * How long a dead executor stays in the table, for people who check what happened to its work. An executor that was
 * only cut off claims nothing until it is in the table again (engine/start-gate.ts).
 */
const forgetAfterMs = 3_600_000;

/** How many workflows one statement reads for the plan of a sweep. */
const readPageSize = 1000;

const skippedReason = 'another session has locked it, or it appeared during the sweep. The next sweep tries again';

/** Which executors are dead, and which are alive (liveness.ts). */
interface Deaths {
  /** Calls the listener whenever executors are declared dead. Returns a function that removes the listener. */
  onDeath(listener: () => void): () => void;
  deaths(): readonly Pick<Death, 'executorId' | 'incarnation' | 'declaredDeadAt' | 'beats'>[];
  executors(): readonly { readonly record: ExecutorRecord; readonly state: 'alive' | 'suspected' | 'dead' }[];
  isDead(incarnation: string): boolean;
  versions(): ReadonlySet<string>;
}

export interface RecoveryParts {
  readonly engine: Engine;
  readonly deaths: Deaths;
  readonly settings: RecoverySettings;
  /**
   * Returns true if an executor without a row is certainly dead, because its ID names a process of this host that is
   * gone.
   */
  readonly isDeadHere: (executorId: string) => boolean;
  /** Makes this process claim work from its queues. Resolves when that is done. */
  readonly claimNow: () => Promise<void>;
}

/**
 * Takes over workflows that dead executors have left PENDING. Every process does so continuously, without a leader:
 * each statement takes only workflows that a dead executor still owns. A workflow goes back on its queue, and any
 * process of its version and app continues it.
 *
 * Recovery takes over the work of these executors:
 *
 *   - executors that this process has declared dead (liveness.ts);
 *   - processes of this host that are gone, recognized by their generated executor ID;
 *   - at launch, earlier processes with this executor's own ID, unless a live process owns the work.
 *
 * The work of any other executor is taken over only on demand.
 *
 * Recovery warns about a workflow whose function is not registered, or whose instance is missing, and retries it every
 * second. A failed round is retried, so a database failure in the middle of a round does not strand the rest.
 */
export class Recovery {
  /** The knowledge of this process about executors, for `app.recovery.incomplete()`. */
  readonly knowledge: Knowledge;
  /** Dead executors with work that is not taken over yet, by `keyOf`. */
  private readonly waiting = new Map<string, DeadExecutor>();
  private readonly loop: Loop;
  private readonly inProgress = new Set<Promise<unknown>>();
  private readonly log: RecoveryLog;
  /** Unknown executors with unfinished work, as of the last search. */
  private unknownExecutors: readonly string[] = [];
  private launched = false;
  private resolveStart = (): void => {};
  private searchedAt = Number.NEGATIVE_INFINITY;
  private stopped = false;

  private stopListening = (): void => {};

  constructor(private readonly parts: RecoveryParts) {
    const { engine, deaths, settings } = parts;
    const { clock, logger } = engine;
    this.loop = new Loop({ name: 'Recovery', everyMs: retryMs, clock, logger, runOnce: () => this.runOnce() });
    this.log = new RecoveryLog(engine);
    this.knowledge = {
      versions: () => deaths.versions(),
      ownerOf: (record) => {
        const incarnation = incarnationOf(record);
        const known = ownerOf(
          record,
          deaths.executors().find((each) => each.record.incarnation === incarnation),
        );
        return known ?? { state: record.executorId && parts.isDeadHere(record.executorId) ? 'dead' : 'unknown' };
      },
      plan: (record, owner) => planHere(engine, settings.enabled, record, owner),
    };
  }

  /**
   * Starts recovery. Resolves when the first round is done, or when its first full page is put back: that page does
   * not wait for the rest, which may be a hundred thousand workflows.
   */
  async start(): Promise<void> {
    if (!this.parts.settings.enabled) return;
    this.stopListening = this.parts.deaths.onDeath(() => this.searchNow());
    this.loop.start();
    const firstPage = new Promise<void>((resolve) => {
      this.resolveStart = resolve;
    });
    await Promise.race([this.loop.runNow(), firstPage]);
  }

  /** Retries at once, for instance because a workflow was registered. */
  wake(): void {
    if (this.waiting.size > 0) this.loop.wake();
  }

  /** Stops recovery permanently. Resolves when no takeover is in progress. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.stopListening();
    await Promise.all([this.loop.stop(), Promise.allSettled(this.inProgress)]);
  }

  /** Recovers work that an operator names. Returns the IDs of the workflows that were put back, oldest first. */
  async recover(
    target: { readonly executorIds: readonly string[] } | { readonly workflowIds: readonly string[] },
  ): Promise<string[]> {
    return this.track(
      'executorIds' in target ? this.recoverExecutors(target.executorIds) : this.recoverWorkflows(target.workflowIds),
    );
  }

  /** Runs one sweep at once. With `dryRun` it only reads. */
  async sweep(dryRun: boolean): Promise<SweepReport> {
    return this.track(dryRun ? this.dryRun() : this.sweepNow());
  }

  private async track<T>(work: Promise<T>): Promise<T> {
    this.inProgress.add(work);
    try {
      return await work;
    } finally {
      this.inProgress.delete(work);
    }
  }

  private searchNow(): void {
    this.searchedAt = Number.NEGATIVE_INFINITY;
    this.loop.wake();
  }

  private async runOnce(): Promise<void> {
    await this.search();
    this.dropLivingExecutors();
    const executors = [...this.waiting.values()];
    if (executors.length === 0) return this.warnOfStranded();
    const free = this.freeOf(executors);
    let count = 0;
    const note = (page: Page): void => {
      count += page.putBack.filter(({ status }) => status === 'ENQUEUED').length;
      this.log.acted(page);
      if (page.putBack.length === pageSize) this.resolveStart();
    };
    const { engine } = this.parts;
    const left = await takeOver(engine, { free, decisions: decisions(engine), note, isOver: () => this.stopped });
    if (count > 0) engine.logger.info(`Recovering ${count} unfinished workflows.`);
    const isUnfinished = this.log.left(left, 'recovery retries it every second');
    if (!isUnfinished) for (const each of executors) this.waiting.delete(keyOf(each));
    await this.warnOfStranded();
  }

  private async search(): Promise<void> {
    const { engine } = this.parts;
    const now = engine.clock.now();
    if (now - this.searchedAt < searchEveryMs) return;
    for (const each of await this.findDead(this.launched ? 'later' : 'launch')) this.waiting.set(keyOf(each), each);
    if (!this.launched) {
      const unknown = this.unknownExecutors.map((executorId) => ({ executorId, incarnation: null }));
      await warnOfUnknownExecutorsWork(engine, this.freeOf(unknown), this.unknownExecutors);
    }
    [this.launched, this.searchedAt] = [true, now];
    await this.forgetDead(now);
  }

  /** Removes executors that are alive again: an executor that was only silent for a while keeps its work. */
  private dropLivingExecutors(): void {
    for (const [key, { incarnation }] of this.waiting) {
      if (incarnation !== null && !this.parts.deaths.isDead(incarnation)) this.waiting.delete(key);
    }
  }

  private async findDead(when: 'launch' | 'later'): Promise<DeadExecutor[]> {
    const { engine, deaths, isDeadHere } = this.parts;
    const { version, writer } = engine;
    const pending = await engine.storage.takeovers.executors({ version, appName: writer.appName });
    const unlisted = pending.filter((id) => (id === writer.executorId ? when === 'launch' : isDeadHere(id)));
    const left = new Set(pending);
    const known = new Set([writer.executorId, ...deaths.executors().map(({ record }) => record.executorId)]);
    this.unknownExecutors = pending.filter((id) => !known.has(id) && !isDeadHere(id));
    return [
      ...deaths
        .deaths()
        .filter(({ executorId }) => left.has(executorId))
        .map(({ executorId, incarnation, beats }) => ({ executorId, incarnation, beats })),
      ...unlisted.map((executorId) => ({ executorId, incarnation: null })),
    ];
  }

  /**
   * Selects the work of these executors. Work of an incarnation that is in the table and not dead is left out, whatever
   * its executor ID.
   */
  private freeOf(executors: readonly DeadExecutor[]): FreeWork {
    const { engine } = this.parts;
    return { appName: engine.writer.appName, version: engine.version, ...this.incarnations(), executors };
  }

  private incarnations(): Pick<FreeWork, 'live' | 'dead'> {
    const { engine, deaths } = this.parts;
    return {
      live: [engine.owners.incarnation],
      dead: deaths.deaths().map(({ incarnation }) => incarnation),
    };
  }

  private async recoverExecutors(executorIds: readonly string[]): Promise<string[]> {
    const { engine, deaths } = this.parts;
    const executors = executorIds.map((executorId) => ({ executorId, incarnation: null }));
    for (const { record, state } of deaths.executors()) {
      if (state !== 'alive' || !executorIds.includes(record.executorId)) continue;
      if (record.incarnation === engine.owners.incarnation) continue;
      engine.logger.warn(`Executor "${record.executorId}" is alive, but recover() takes over its work.`);
    }
    const { appName } = engine.writer;
    const free: FreeWork = { appName, version: engine.version, live: [engine.owners.incarnation], executors };
    const given = decisions(engine, (policy) => ({ ...policy, autoResume: true }));
    const pending = await engine.storage.takeovers.executors({ version: engine.version, appName });
    const { ids, left } = await this.take(free, given);
    // There is no automatic retry. The operator declared these executors dead now; a later process with such an ID may
    // be alive.
    this.log.left(left, 'then call recover() again');
    const known = new Set([...pending, ...deaths.executors().map(({ record }) => record.executorId)]);
    await warnOfUnknownExecutors(engine, executorIds, known);
    return ids;
  }

  private async recoverWorkflows(workflowIds: readonly string[]): Promise<string[]> {
    const { engine } = this.parts;
    const free = { appName: engine.writer.appName, version: engine.version, ...this.incarnations(), workflowIds };
    const { ids } = await this.take(free, decisions(engine, forcedPolicy));
    const taken = new Set(ids);
    const others = workflowIds.filter((id) => !taken.has(id));
    await warnOfUnrecovered(engine, this.knowledge, others);
    return ids;
  }

  private async take(free: FreeWork, given: readonly RecoveryDecision[]): Promise<{ ids: string[]; left: Left }> {
    const taken: { readonly workflowId: string; readonly createdAt: number }[] = [];
    const note = (page: Page): void => {
      for (const each of page.putBack) if (each.status === 'ENQUEUED') taken.push(each);
      this.log.acted(page);
    };
    const { engine, claimNow } = this.parts;
    // This process claims first. A former owner that is alive after all receives the notification, too, and must not
    // be the first to claim the work again.
    const announce = async (): Promise<void> => {
      await claimNow();
      engine.news.announceToOthers('queues');
    };
    const left = await takeOver(engine, { free, decisions: given, note, announce });
    return { ids: taken.sort((a, b) => a.createdAt - b.createdAt).map(({ workflowId }) => workflowId), left };
  }

  private async sweepNow(): Promise<SweepReport> {
    const { engine } = this.parts;
    const executors = await this.findDead('later');
    const free = this.freeOf(executors);
    const tally = new Tally();
    const policyOf = (key: WorkflowKey) => engine.registry.policyOf(engine.registry.require(key));
    const note = (page: Page): void => {
      tally.addPage(page, policyOf);
      this.log.acted(page);
    };
    await takeOver(engine, { free, decisions: decisions(engine), note, isOver: () => this.stopped });
    for (const [record, { action, because }] of await this.plans()) {
      if (action === 'wait-for-operator' || action === 'other-version' || action === 'none')
        tally.add(record, action, because);
      else tally.add(record, 'none', skippedReason);
    }
    return tally.toReport();
  }

  /** Reports what a sweep would do. It only reads. */
  private async dryRun(): Promise<SweepReport> {
    const { storage } = this.parts.engine;
    const plans = await this.plans();
    const cancelled = new Map(
      plans.flatMap(([{ workflowId }, plan]) => (plan.action === 'cancel' ? [[workflowId, plan]] : [])),
    );
    const tally = new Tally();
    // A cancellation reaches all children, whatever their own policy is, and whoever runs them.
    const children = cancelled.size === 0 ? [] : await storage.takeovers.descendants([...cancelled.keys()]);
    const isChild = new Set(children.map(({ workflowId }) => workflowId));
    for (const [record, { action, because }] of plans) {
      if (!isChild.has(record.workflowId)) tally.add(record, action, because);
    }
    for (const child of children) tally.add(child, 'cancel', cancelled.get(child.root)?.because ?? '');
    return tally.toReport();
  }

  /**
   * Returns the plan for each workflow of a dead or unknown executor, and for workflows that were handed over and not
   * claimed.
   */
  private async plans(): Promise<[IncompleteRecord, RecoveryPlan][]> {
    const { engine, deaths } = this.parts;
    const dead = [...(await this.findDead('later')), ...deaths.deaths()];
    const unknownExecutors = new Set(this.unknownExecutors);
    const executorIds = [...new Set([...dead.map(({ executorId }) => executorId), ...unknownExecutors])];
    const records = [
      ...(await this.readAll({ executorIds })),
      ...(await this.readAll({ handedOver: { butFor: [...deaths.versions()], only: true } })),
    ];
    return records.flatMap((record) => {
      const owner = this.knowledge.ownerOf(record);
      const isFree = owner.state === 'dead' || owner.state === 'none';
      const isUnknown = owner.state === 'unknown' && unknownExecutors.has(record.executorId ?? '');
      return isFree || isUnknown ? [[record, planHere(engine, true, record, owner)]] : [];
    });
  }

  private async readAll(which: Pick<IncompleteFilter, 'executorIds' | 'handedOver'>): Promise<IncompleteRecord[]> {
    const { storage, writer } = this.parts.engine;
    const all: IncompleteRecord[] = [];
    for (;;) {
      const after = all.at(-1);
      const filter = { ...which, appName: writer.appName, limit: readPageSize, ...(after && { after }) };
      const page = await storage.takeovers.incomplete(filter);
      all.push(...page);
      if (page.length < readPageSize || this.stopped) return all;
    }
  }

  /** Warns about work of versions that no process runs. Without the warning nobody would know that it waits. */
  private async warnOfStranded(): Promise<void> {
    const { engine, deaths } = this.parts;
    const fresh = this.log.fresh(deaths.deaths());
    if (fresh.length === 0) return;
    const stranded = await engine.storage.takeovers.stranded(this.freeOf(fresh));
    const alive = deaths.versions();
    this.log.stranded(
      stranded.filter(({ version }) => !alive.has(version)),
      fresh,
    );
  }

  /**
   * Removes executors that died long ago from the table. The statement keeps an executor that still owns PENDING work.
   */
  private async forgetDead(now: number): Promise<void> {
    const { engine, deaths } = this.parts;
    const old = deaths.deaths().filter(({ declaredDeadAt }) => now - declaredDeadAt >= forgetAfterMs);
    if (old.length === 0) return;
    const isOld = new Set(old.map(({ incarnation }) => incarnation));
    // The records contain the number of the last heartbeat that this process saw. This process may have been stopped
    // since then, and the executor may be alive again.
    const records = deaths.executors().flatMap(({ record }) => (isOld.has(record.incarnation) ? record : []));
    await engine.storage.executors.forget(records.map(({ incarnation, beats }) => ({ incarnation, beats })));
  }
}

function keyOf({ executorId, incarnation }: DeadExecutor): string {
  return `${incarnation ?? ''} ${executorId}`;
}
