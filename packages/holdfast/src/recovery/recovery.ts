import { runClaimed } from '../engine/claimed.js';
import type { Engine } from '../engine/engine.js';
import { createHandle, type WorkflowHandle } from '../engine/handle.js';
import { Loop } from '../engine/loop.js';
import { describeError } from '../model/errors.js';

/** How many workflows are claimed by one statement. */
const pageSize = 500;

/** An unregistered function may be registered a moment later: it is looked for again after this long. */
const retryMs = 1000;

/**
 * Takes over what executors have left PENDING: at launch those whose ID is ours or whose process on this host is dead,
 * on demand any that the caller knows to be dead. Only work of this application version is touched.
 *
 * A workflow whose function is not registered is warned about and tried again each second; any other failure is
 * logged and the rest goes on. Recovery at launch is not over until it has succeeded: a database that fails in the
 * middle of it must not strand the rest.
 */
export class Recovery {
  /** Executors with work that could not be taken over yet. */
  private readonly waiting = new Set<string>();
  private undiscovered: (() => Promise<string[]>) | undefined;
  private readonly retry: Loop;

  constructor(private readonly engine: Engine) {
    const { clock, logger } = engine;
    this.retry = new Loop({ name: 'Recovery', everyMs: retryMs, clock, logger, runOnce: () => this.runOnce() });
  }

  /** Recovers the work of the executors that `discover` finds dead, now or as soon as the database allows. */
  async atLaunch(discover: () => Promise<string[]>): Promise<void> {
    this.undiscovered = discover;
    this.retry.start();
    await this.retry.runNow();
  }

  /** Recovers the work of these executors, which must be dead: a live one would be fenced off from its own work. */
  async recover(executorIds: readonly string[]): Promise<WorkflowHandle[]> {
    const handles = await this.claimAll(executorIds);
    await this.noteUnregistered(executorIds);
    if (this.waiting.size > 0) this.retry.start();
    return handles;
  }

  /** Looks again at once, for instance because a workflow was registered. */
  wake(): void {
    if (this.waiting.size > 0) this.retry.wake();
  }

  stop(): Promise<void> {
    return this.retry.stop();
  }

  private async runOnce(): Promise<void> {
    for (const id of (await this.undiscovered?.()) ?? []) this.waiting.add(id);
    this.undiscovered = undefined;
    const executorIds = [...this.waiting];
    if (executorIds.length > 0) {
      const handles = await this.claimAll(executorIds);
      if (handles.length > 0) this.engine.logger.info(`Recovering ${handles.length} unfinished workflows.`);
      await this.noteUnregistered(executorIds);
    }
    if (this.waiting.size === 0) this.retry.pause();
  }

  private async claimAll(executorIds: readonly string[]): Promise<WorkflowHandle[]> {
    const { engine } = this;
    const handles: WorkflowHandle[] = [];
    for (;;) {
      const claimed = await engine.storage.workflows.claimPending({
        writer: engine.writer,
        owner: engine.owners.next(),
        version: engine.version,
        runnable: engine.registry.runnable(),
        now: engine.clock.now(),
        limit: pageSize,
        executorIds,
        exceptOwners: engine.owners.pattern,
      });
      for (const record of claimed) handles.push(createHandle(engine, record.workflowId));
      await runClaimed(engine, claimed).catch((error) =>
        engine.logger.error(`${claimed.length} workflows could not be recovered: ${describeError(error)}`),
      );
      if (claimed.length < pageSize) return handles;
    }
  }

  private async noteUnregistered(executorIds: readonly string[]): Promise<void> {
    const { engine } = this;
    const { version, writer } = engine;
    const pending = await engine.storage.workflows.pendingNames({ executorIds, version, appName: writer.appName });
    const unknown = pending.filter(({ name }) => engine.registry.get(name) === undefined);
    for (const { name, workflowId } of unknown) {
      engine.logger.warn(
        `Workflow "${workflowId}" cannot be recovered: no workflow named "${name}" is registered. ` +
          'Give it to launch() or app.register(); it is tried again each second.',
      );
    }
    for (const id of executorIds) {
      if (unknown.length > 0) this.waiting.add(id);
      else this.waiting.delete(id);
    }
  }
}
