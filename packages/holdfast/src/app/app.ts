import type { Watcher } from '../classes/instances.js';
import { workflowInternals } from '../engine/api/workflow.js';
import type { Loop } from '../engine/loop.js';
import { attachEngine, markCallable, markClosed, markRunning } from '../engine/running-apps.js';
import type { Runtime } from '../engine/runtime.js';
import { closeAndHandOver, drain } from '../engine/shutdown.js';
import { type VersionOperations, versionOperations } from '../management/versions.js';
import { type WorkflowOperations, workflowOperations } from '../management/workflows.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { checkKnownOptions } from '../model/options.js';
import type { Dispatcher } from '../queues/dispatcher.js';
import { type QueueOperations, queueOperations } from '../queues/operations.js';
import type { Liveness } from '../recovery/liveness.js';
import { type RecoveryOperations, recoveryOperations } from '../recovery/operations.js';
import type { Recovery } from '../recovery/recovery.js';
import { type ScheduleOperations, scheduleOperations } from '../schedules/operations.js';
import type { Scheduler } from '../schedules/scheduler.js';
import { addTo, collectWorkflows, type Registrable, type Registration } from './options.js';

/**
 * A running application, as `launch()` returns it.
 *
 * @example
 * const app = await launch({ name: 'shop', workflows: [checkout], queues: [mails] });
 * const failed = await app.workflows.list({ status: 'ERROR' });
 * const waiting = await app.recovery.incomplete();
 * await app.shutdown({ drain: '30s' });
 */
export interface App {
  /** Name of the application, as given to `launch()`. */
  readonly name: string;
  /** Identifies this process as an executor. */
  readonly executorId: string;
  /** Version of the code of this process. */
  readonly version: string;
  /** Lists, inspects and controls workflows: cancel, resume, retry, fork, delete. */
  readonly workflows: WorkflowOperations;
  /** Registers, lists, changes, pauses and deletes queues. */
  readonly queues: QueueOperations;
  /** Lists, changes, pauses and triggers schedules. */
  readonly schedules: ScheduleOperations;
  /** Lists versions, and sets the latest version. */
  readonly versions: VersionOperations;
  /** Lists and recovers unfinished workflows of processes that died. */
  readonly recovery: RecoveryOperations;
  /**
   * Registers more workflows, or classes with workflows. Recovered work that waits for them starts at once.
   *
   * @example
   * const { refund } = await import('./refund.js');
   * app.register(refund);
   */
  register(...workflows: Registrable[]): void;
  /**
   * Closes the app. It takes no new work, lets running work continue for up to `drain` (default: 0), then hands over
   * unfinished work to other processes.
   *
   * @example
   * process.once('SIGTERM', () => app.shutdown({ drain: '10s' }));
   */
  shutdown(options?: { readonly drain?: Duration }): Promise<void>;
}

export interface AppParts {
  readonly name: string;
  readonly engine: Runtime;
  readonly recovery: Recovery;
  readonly dispatcher: Dispatcher;
  readonly scheduler: Scheduler;
  readonly liveness: Liveness;
  readonly loops: readonly Loop[];
  /** The classes whose new instances are registered automatically, each with a function that stops this. */
  readonly watched: Map<object, () => void>;
}

export function createApp(parts: AppParts): App {
  const { engine, recovery } = parts;
  let closing: Promise<void> | undefined;
  const app: App = {
    name: parts.name,
    executorId: engine.writer.executorId,
    version: engine.version,
    workflows: workflowOperations(engine),
    queues: queueOperations(engine),
    schedules: scheduleOperations(engine),
    versions: versionOperations(engine),
    recovery: recoveryOperations(engine, recovery),
    register: (...workflows) => {
      engine.lifecycle.checkOpen();
      attach(parts, collectWorkflows(workflows, 'register()'));
      wake(parts);
    },
    shutdown: async (options = {}) => {
      checkKnownOptions('shutdown()', options, ['drain']);
      const drainMs = parseDuration(options.drain ?? 0, 'The drain of shutdown()');
      closing ??= close(parts, drainMs);
      return closing;
    },
  };
  attachEngine(app, engine);
  markRunning(engine);
  return app;
}

/** Makes the services search at once for work that waited for a workflow to be registered. */
function wake({ recovery, dispatcher, scheduler }: AppParts): void {
  recovery.wake();
  dispatcher.wake();
  scheduler.wake();
}

/** Registers workflows with the engine, and lets their callers find the engine. */
export function attach(parts: AppParts, picked: Registration): void {
  const { engine, watched } = parts;
  addTo(engine.registry, picked);
  for (const each of picked.workflows) {
    const own = workflowInternals(each);
    if (own) markCallable(engine, own.definition);
  }
  for (const { definedBy, watch } of picked.classes) {
    if (watch && !watched.has(definedBy)) watched.set(definedBy, watch(lateInstance(parts)));
  }
}

/** Registers an instance that is constructed while the app runs, and wakes services that may have work for it. */
function lateInstance(parts: AppParts): Watcher {
  return (workflows, { className, configName }) => {
    parts.engine.logger.warn(
      `The instance "${configName}" of class "${className}" was constructed after launch(), so its unfinished work ` +
        'could not be recovered until now. Construct instances before launch().',
    );
    attach(parts, { workflows, classes: [] });
    wake(parts);
  };
}

/** The opposite of {@link attach}: from now on, calls of the workflows do not find this engine. */
export function detach({ engine, watched }: AppParts): void {
  markClosed(engine);
  for (const stop of watched.values()) stop();
}

async function close(parts: AppParts, drainMs: number): Promise<void> {
  const { engine } = parts;
  engine.lifecycle.refuseStarts();
  // While draining, the app takes no new work. Deadlines and cancellations still apply.
  const stopping = Promise.all([parts.scheduler.stop(), parts.dispatcher.stop(), parts.recovery.stop()]);
  await drain(engine, drainMs, stopping);
  await Promise.all(parts.loops.map((loop) => loop.stop()));
  detach(parts);
  await closeAndHandOver(engine, stopping);
  await parts.liveness.stop();
  await engine.news.stop();
  await engine.storage.close();
}
