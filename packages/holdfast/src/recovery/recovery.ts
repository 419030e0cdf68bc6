import type { Engine } from '../engine/engine.js';
import { createHandle, type WorkflowHandle } from '../engine/handle.js';
import { Loop } from '../engine/loop.js';
import { describeKey, keyText, type WorkflowKey } from '../model/workflow-key.js';

/** How many workflows are claimed by one statement. */
const pageSize = 500;

/** An unregistered function may be registered a moment later: it is looked for again after this long. */
const retryMs = 1000;

/** A process on this host may die at any time, or be dying just while its successor launches. */
const lookAgainMs = 5000;

/** Finds executors whose work is free to take. With `'launch'` also this executor's own ID: no predecessor uses it now. */
export type FindDead = (when: 'launch' | 'later') => Promise<string[]>;

/**
 * Takes over what executors have left PENDING: at launch those whose ID is ours, then and from time to time those
 * whose process on this host is dead, on demand any that the caller knows to be dead. Only work of this application
 * version is touched.
 *
 * A workflow whose function is not registered, or whose instance is missing, is warned about and tried again each
 * second; any other failure is logged and the rest goes on. Recovery at launch is not over until it has succeeded: a
 * database that fails in the middle of it must not strand the rest.
 */
export class Recovery {
  /** Executors with work that could not be taken over yet. */
  private readonly waiting = new Set<string>();
  private launched = false;
  private lookedAt = 0;
  private readonly loop: Loop;
  private readonly underWay = new Set<Promise<unknown>>();

  constructor(
    private readonly engine: Engine,
    private readonly findDead: FindDead,
  ) {
    const { clock, logger } = engine;
    this.loop = new Loop({ name: 'Recovery', everyMs: retryMs, clock, logger, runOnce: () => this.runOnce() });
  }

  /** Recovers what it finds now, or as soon as the database allows, and keeps looking. */
  async start(): Promise<void> {
    this.loop.start();
    await this.loop.runNow();
  }

  /** Recovers the work of these executors, which must be dead: a live one would be fenced off from its own work. */
  async recover(executorIds: readonly string[]): Promise<WorkflowHandle[]> {
    const recovering = this.recoverNow(executorIds);
    this.underWay.add(recovering);
    try {
      return await recovering;
    } finally {
      this.underWay.delete(recovering);
    }
  }

  /** Looks again at once, for instance because a workflow was registered. */
  wake(): void {
    if (this.waiting.size > 0) this.loop.wake();
  }

  /** For good. Resolves when nothing is being taken over any more: a later claim would be left to a closed app. */
  async stop(): Promise<void> {
    await Promise.all([this.loop.stop(), Promise.allSettled(this.underWay)]);
  }

  private async recoverNow(executorIds: readonly string[]): Promise<WorkflowHandle[]> {
    const handles = await this.claimAll(executorIds);
    await this.noteUnregistered(executorIds);
    return handles;
  }

  private async runOnce(): Promise<void> {
    await this.look();
    const executorIds = [...this.waiting];
    if (executorIds.length === 0) return;
    const handles = await this.claimAll(executorIds);
    if (handles.length > 0) this.engine.logger.info(`Recovering ${handles.length} unfinished workflows.`);
    await this.noteUnregistered(executorIds);
  }

  private async look(): Promise<void> {
    const now = this.engine.clock.now();
    if (this.launched && now - this.lookedAt < lookAgainMs) return;
    for (const id of await this.findDead(this.launched ? 'later' : 'launch')) this.waiting.add(id);
    [this.launched, this.lookedAt] = [true, now];
  }

  private async claimAll(executorIds: readonly string[]): Promise<WorkflowHandle[]> {
    const { engine } = this;
    const handles: WorkflowHandle[] = [];
    for (;;) {
      const claimed = await engine.claims.take(pageSize, (claim) =>
        engine.storage.workflows.claimPending({ ...claim, executorIds, exceptOwners: engine.owners.pattern }),
      );
      for (const record of claimed) handles.push(createHandle(engine, record.workflowId));
      const queues = claimed.filter((record) => record.status === 'ENQUEUED').map((record) => record.queueName);
      for (const name of new Set(queues)) engine.news.tell(`queue:${name}`);
      if (claimed.length < pageSize) return handles;
    }
  }

  private warnOfUnregistered(key: WorkflowKey, workflowId: string): void {
    const { engine } = this;
    const { className, configName } = key;
    const what = `Workflow "${workflowId}" cannot be recovered: no workflow named "${describeKey(key)}" is registered.`;
    if (className === null) {
      engine.logger.warn(`${what} Give it to launch() or app.register(); it is tried again each second.`);
      return;
    }
    const advice =
      configName === null
        ? `Give the class "${className}" to launch() or app.register()`
        : `Construct the instance "${configName}" of class "${className}", and give the class to launch()`;
    // Once for all of an instance's work: there may be much of it, and the instance may take its time.
    engine.warnOnce(`recovery of ${keyText(key)}`, `${what} ${advice}; it is tried again each second.`);
  }

  private async noteUnregistered(executorIds: readonly string[]): Promise<void> {
    const { engine } = this;
    const { version, writer } = engine;
    const pending = await engine.storage.workflows.pendingKeys({ executorIds, version, appName: writer.appName });
    const unknown = pending.filter((key) => engine.registry.get(key) === undefined);
    for (const { workflowId, ...key } of unknown) this.warnOfUnregistered(key, workflowId);
    for (const id of executorIds) {
      if (unknown.length > 0) this.waiting.add(id);
      else this.waiting.delete(id);
    }
  }
}
