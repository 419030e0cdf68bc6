import { Loop } from '../engine/loop.js';
import type { RecoverySettings } from '../model/recovery.js';
import type { WorkflowKey } from '../model/workflow-key.js';
import type { ExecutorRecord } from '../storage/contract/executors.js';
import type {
  DeadExecutor,
  Free,
  IncompleteFilter,
  IncompleteRecord,
  RecoveryDecision,
} from '../storage/contract/takeovers.js';
import { incarnationOf, type Knowledge, ownerOf, planHere } from './incomplete.js';
import type { Death } from './peers.js';
import { insisting, type RecoveryPlan } from './policy.js';
import { warnOfUnknownExecutors, warnOfUnrecovered } from './recover-warnings.js';
import { RecoveryLog } from './recovery-log.js';
import { type SweepReport, Tally } from './report.js';
import { decisions, type Left, type Page, pageSize, type RecoveringEngine, takeOver } from './takeover.js';
import { warnOfUnknownExecutorsWork } from './unknown-executors.js';

/** Work that cannot be taken over yet, because its function is not registered, is tried again after this long. */
const retryMs = 1000;

/** How often all is looked at in any case. A death that is heard of is acted on at once. */
const lookAgainMs = 5000;

/**
 * How long a dead executor stays on record, for those who look at what became of its work. One that was only cut off takes
 * nothing on before it is on record again (engine/start-gate.ts).
 */
const buryAfterMs = 3_600_000;

/** How much is read by one statement of what a sweep plans. */
const readPage = 1000;

const heldReason = 'someone held on to it, or it came up meanwhile: the next sweep looks again';

/** Who is dead, and who lives (liveness.ts). */
interface Deaths {
  /** Called when an executor was found dead. */
  onDeath: (() => void) | undefined;
  deaths(): readonly Pick<Death, 'executorId' | 'incarnation' | 'seenDeadAt' | 'beats'>[];
  executors(): readonly { readonly record: ExecutorRecord; readonly standing: 'alive' | 'suspected' | 'dead' }[];
  isDead(incarnation: string): boolean;
  versions(): ReadonlySet<string>;
}

export interface RecoveryParts {
  readonly engine: RecoveringEngine;
  readonly deaths: Deaths;
  readonly settings: RecoverySettings;
  /** Whether an executor that is in no table is certainly dead, by what its ID says of its process. */
  readonly isDeadHere: (executorId: string) => boolean;
  /** Takes up work from the queues. Resolves when that is done. */
  readonly takeUp: () => Promise<void>;
}

/**
 * Takes over what dead executors have left PENDING, in every process, all the time, without a leader: each statement takes
 * only what is still theirs. It is put back on its queue, and any process of its version and app goes on with it.
 *
 * Whose work it is: that of executors whose death was seen (liveness.ts); of processes of this host that are gone, by
 * their generated ID; and at launch that under this executor's own ID, unless a live process owns it. Anyone else's,
 * only on demand.
 *
 * A workflow whose function is not registered, or whose instance is missing, is warned about and tried again each second.
 * A round that fails is made again: a database that fails in the middle of it must not strand the rest.
 */
export class Recovery {
  /** What `app.recovery.incomplete()` goes by. */
  readonly knowledge: Knowledge;
  /** Executors with work that could not be taken over yet. */
  private readonly waiting = new Map<string, DeadExecutor>();
  private readonly loop: Loop;
  private readonly underWay = new Set<Promise<unknown>>();
  private readonly notices: RecoveryLog;
  /** Executors with unfinished work of which nothing is known, when it was last looked. */
  private strangers: readonly string[] = [];
  private launched = false;
  private begun = (): void => {};
  private lookedAt = Number.NEGATIVE_INFINITY;
  private stopped = false;

  constructor(private readonly parts: RecoveryParts) {
    const { engine, deaths, settings } = parts;
    const { clock, logger } = engine;
    this.loop = new Loop({ name: 'Recovery', everyMs: retryMs, clock, logger, runOnce: () => this.runOnce() });
    this.notices = new RecoveryLog(engine);
    this.knowledge = {
      versions: () => deaths.versions(),
      ownerOf: (record) => {
        const incarnation = incarnationOf(record);
        const known = ownerOf(
          record,
          deaths.executors().find((each) => each.record.incarnation === incarnation),
        );
        return known ?? { standing: record.executorId && parts.isDeadHere(record.executorId) ? 'dead' : 'unknown' };
      },
      plan: (record, owner) => planHere(engine, settings.enabled, record, owner),
    };
  }

  /**
   * Recovers what it finds now, or as soon as the database allows, and keeps looking. Resolves when that is done, or well
   * begun: what has been put back is not to wait for the rest of a hundred thousand.
   */
  async start(): Promise<void> {
    if (!this.parts.settings.enabled) return;
    this.parts.deaths.onDeath = () => this.lookNow();
    this.loop.start();
    const begun = new Promise<void>((resolve) => {
      this.begun = resolve;
    });
    await Promise.race([this.loop.runNow(), begun]);
  }

  /** Looks again at once, for instance because a workflow was registered. */
  wake(): void {
    if (this.waiting.size > 0) this.loop.wake();
  }

  /** For good. Resolves when nothing is being taken over any more. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.parts.deaths.onDeath = undefined;
    await Promise.all([this.loop.stop(), Promise.allSettled(this.underWay)]);
  }

  /** On an operator's word. Returns the IDs of what was put back, oldest first. */
  async recover(
    target: { readonly executorIds: readonly string[] } | { readonly workflowIds: readonly string[] },
  ): Promise<string[]> {
    return this.noting('executorIds' in target ? this.ofExecutors(target.executorIds) : this.ofIds(target.workflowIds));
  }

  async sweep(dryRun: boolean): Promise<SweepReport> {
    return this.noting(dryRun ? this.rehearse() : this.sweepNow());
  }

  private async noting<T>(work: Promise<T>): Promise<T> {
    this.underWay.add(work);
    try {
      return await work;
    } finally {
      this.underWay.delete(work);
    }
  }

  private lookNow(): void {
    this.lookedAt = Number.NEGATIVE_INFINITY;
    this.loop.wake();
  }

  private async runOnce(): Promise<void> {
    await this.look();
    this.forgetTheLiving();
    const executors = [...this.waiting.values()];
    if (executors.length === 0) return this.noteStranded();
    const free = this.freeOf(executors);
    let count = 0;
    const note = (page: Page): void => {
      count += page.putBack.filter(({ status }) => status === 'ENQUEUED').length;
      this.notices.acted(page);
      if (page.putBack.length === pageSize) this.begun();
    };
    const { engine } = this.parts;
    const left = await takeOver(engine, { free, fates: decisions(engine), note, isOver: () => this.stopped });
    if (count > 0) engine.logger.info(`Recovering ${count} unfinished workflows.`);
    const isUnfinished = this.notices.left(left, 'it is tried again each second');
    if (!isUnfinished) for (const each of executors) this.waiting.delete(textOf(each));
    await this.noteStranded();
  }

  private async look(): Promise<void> {
    const { engine } = this.parts;
    const now = engine.clock.now();
    if (now - this.lookedAt < lookAgainMs) return;
    for (const each of await this.findDead(this.launched ? 'later' : 'launch')) this.waiting.set(textOf(each), each);
    if (!this.launched) {
      const theirs = this.strangers.map((executorId) => ({ executorId, incarnation: null }));
      await warnOfUnknownExecutorsWork(engine, this.freeOf(theirs), this.strangers);
    }
    [this.launched, this.lookedAt] = [true, now];
    await this.bury(now);
  }

  /** One that was only silent for a while keeps what it has. */
  private forgetTheLiving(): void {
    for (const [text, { incarnation }] of this.waiting) {
      if (incarnation !== null && !this.parts.deaths.isDead(incarnation)) this.waiting.delete(text);
    }
  }

  private async findDead(when: 'launch' | 'later'): Promise<DeadExecutor[]> {
    const { engine, deaths, isDeadHere } = this.parts;
    const { version, writer } = engine;
    const pending = await engine.storage.takeovers.executors({ version, appName: writer.appName });
    const unlisted = pending.filter((id) => (id === writer.executorId ? when === 'launch' : isDeadHere(id)));
    const left = new Set(pending);
    const known = new Set([writer.executorId, ...deaths.executors().map(({ record }) => record.executorId)]);
    this.strangers = pending.filter((id) => !known.has(id) && !isDeadHere(id));
    return [
      ...deaths
        .deaths()
        .filter(({ executorId }) => left.has(executorId))
        .map(({ executorId, incarnation, beats }) => ({ executorId, incarnation, beats })),
      ...unlisted.map((executorId) => ({ executorId, incarnation: null })),
    ];
  }

  /** Whoever is in the table and not dead keeps what it owns, under whatever executor ID. */
  private freeOf(executors: readonly DeadExecutor[]): Free {
    const { engine } = this.parts;
    return { appName: engine.writer.appName, version: engine.version, ...this.whoLives(), executors };
  }

  private whoLives(): Pick<Free, 'live' | 'dead'> {
    const { engine, deaths } = this.parts;
    return {
      live: [engine.owners.incarnation],
      dead: deaths.deaths().map(({ incarnation }) => incarnation),
    };
  }

  private async ofExecutors(executorIds: readonly string[]): Promise<string[]> {
    const { engine, deaths } = this.parts;
    const executors = executorIds.map((executorId) => ({ executorId, incarnation: null }));
    for (const { record, standing } of deaths.executors()) {
      if (standing !== 'alive' || !executorIds.includes(record.executorId)) continue;
      if (record.incarnation === engine.owners.incarnation) continue;
      engine.logger.warn(`Executor "${record.executorId}" is alive, and its work is taken from it by recover().`);
    }
    const { appName } = engine.writer;
    const free: Free = { appName, version: engine.version, live: [engine.owners.incarnation], executors };
    const asked = decisions(engine, (policy) => ({ ...policy, autoResume: true }));
    const pending = await engine.storage.takeovers.executors({ version: engine.version, appName });
    const { ids, left } = await this.take(free, asked);
    // Not watched from now on: that they are dead was said of this moment, and who comes under such an ID later may live.
    this.notices.left(left, 'then call recover() again');
    const known = new Set([...pending, ...deaths.executors().map(({ record }) => record.executorId)]);
    await warnOfUnknownExecutors(engine, executorIds, known);
    return ids;
  }

  private async ofIds(workflowIds: readonly string[]): Promise<string[]> {
    const { engine } = this.parts;
    const free = { appName: engine.writer.appName, version: engine.version, ...this.whoLives(), workflowIds };
    const { ids } = await this.take(free, decisions(engine, insisting));
    const taken = new Set(ids);
    const others = workflowIds.filter((id) => !taken.has(id));
    await warnOfUnrecovered(engine, this.knowledge, others);
    return ids;
  }

  private async take(free: Free, given: readonly RecoveryDecision[]): Promise<{ ids: string[]; left: Left }> {
    const taken: { readonly workflowId: string; readonly createdAt: number }[] = [];
    const note = (page: Page): void => {
      for (const each of page.putBack) if (each.status === 'ENQUEUED') taken.push(each);
      this.notices.acted(page);
    };
    const { engine, takeUp } = this.parts;
    // Here first: one that was only thought dead, and hears of it like the others, must not be the one to get it back.
    const announce = async (): Promise<void> => {
      await takeUp();
      engine.news.announceToOthers('queues');
    };
    const left = await takeOver(engine, { free, fates: given, note, announce });
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
      this.notices.acted(page);
    };
    await takeOver(engine, { free, fates: decisions(engine), note, isOver: () => this.stopped });
    for (const [record, { action, because }] of await this.plans()) {
      if (action === 'wait-for-operator' || action === 'other-version' || action === 'none')
        tally.add(record, action, because);
      else tally.add(record, 'none', heldReason);
    }
    return tally.toReport();
  }

  /** What a sweep would do, from reading alone. */
  private async rehearse(): Promise<SweepReport> {
    const { storage } = this.parts.engine;
    const plans = await this.plans();
    const doomed = new Map(
      plans.flatMap(([{ workflowId }, plan]) => (plan.action === 'cancel' ? [[workflowId, plan]] : [])),
    );
    const tally = new Tally();
    // Whatever its own policy says, and whoever runs it: a cancellation reaches children.
    const children = doomed.size === 0 ? [] : await storage.takeovers.descendants([...doomed.keys()]);
    const isChild = new Set(children.map(({ workflowId }) => workflowId));
    for (const [record, { action, because }] of plans) {
      if (!isChild.has(record.workflowId)) tally.add(record, action, because);
    }
    for (const child of children) tally.add(child, 'cancel', doomed.get(child.root)?.because ?? '');
    return tally.toReport();
  }

  /** What becomes of all that the dead and the unknown have left, one by one, and of what was handed over to nobody. */
  private async plans(): Promise<[IncompleteRecord, RecoveryPlan][]> {
    const { engine, deaths } = this.parts;
    const dead = [...(await this.findDead('later')), ...deaths.deaths()];
    const strangers = new Set(this.strangers);
    const executorIds = [...new Set([...dead.map(({ executorId }) => executorId), ...strangers])];
    const records = [
      ...(await this.readAll({ executorIds })),
      ...(await this.readAll({ handedOver: { butFor: [...deaths.versions()], only: true } })),
    ];
    return records.flatMap((record) => {
      const owner = this.knowledge.ownerOf(record);
      const isFree = owner.standing === 'dead' || owner.standing === 'none';
      const isStrange = owner.standing === 'unknown' && strangers.has(record.executorId ?? '');
      return isFree || isStrange ? [[record, planHere(engine, true, record, owner)]] : [];
    });
  }

  private async readAll(which: Pick<IncompleteFilter, 'executorIds' | 'handedOver'>): Promise<IncompleteRecord[]> {
    const { storage, writer } = this.parts.engine;
    const all: IncompleteRecord[] = [];
    for (;;) {
      const after = all.at(-1);
      const filter = { ...which, appName: writer.appName, limit: readPage, ...(after && { after }) };
      const page = await storage.takeovers.incomplete(filter);
      all.push(...page);
      if (page.length < readPage || this.stopped) return all;
    }
  }

  /** Work of a version that no process runs any more would otherwise wait in silence. */
  private async noteStranded(): Promise<void> {
    const { engine, deaths } = this.parts;
    const fresh = this.notices.fresh(deaths.deaths());
    if (fresh.length === 0) return;
    const stranded = await engine.storage.takeovers.stranded(this.freeOf(fresh));
    const alive = deaths.versions();
    this.notices.stranded(
      stranded.filter(({ version }) => !alive.has(version)),
      fresh,
    );
  }

  /** The table keeps those that own something of which nobody has taken care yet. */
  private async bury(now: number): Promise<void> {
    const { engine, deaths } = this.parts;
    const old = deaths.deaths().filter(({ seenDeadAt }) => now - seenDeadAt >= buryAfterMs);
    if (old.length === 0) return;
    const isOld = new Set(old.map(({ incarnation }) => incarnation));
    // By what was last seen of them: this process may have stood still since, and they may be back.
    const records = deaths.executors().flatMap(({ record }) => (isOld.has(record.incarnation) ? record : []));
    await engine.storage.executors.bury(records.map(({ incarnation, beats }) => ({ incarnation, beats })));
  }
}

function textOf({ executorId, incarnation }: DeadExecutor): string {
  return `${incarnation ?? ''} ${executorId}`;
}
