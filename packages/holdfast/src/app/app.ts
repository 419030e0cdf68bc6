import type { Watcher } from '../classes/instances.js';
import { workflowInternals } from '../engine/api/workflow.js';
import type { Loop } from '../engine/loop.js';
import { attachEngine, markCallable, markClosed, markRunning } from '../engine/running-apps.js';
import type { Runtime } from '../engine/runtime.js';
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
import { addTo, type Picked, pickWorkflows, type Registrable } from './options.js';

/** A running application: what `launch` returns. */
export interface App {
  readonly name: string;
  readonly executorId: string;
  readonly version: string;
  readonly workflows: WorkflowOperations;
  readonly queues: QueueOperations;
  readonly schedules: ScheduleOperations;
  readonly versions: VersionOperations;
  readonly recovery: RecoveryOperations;
  /** Registers more workflows, or classes with workflows; what waited for them in recovery is run at once. */
  register(...workflows: Registrable[]): void;
  /** Lets work go on for up to `drain` (default: not at all), then hands over what is unfinished and closes. */
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
  /** The classes whose new instances the app hears of, and how it stops to. */
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
      engine.checkOpen();
      attach(parts, pickWorkflows(workflows, 'register()'));
      wake(parts);
    },
    shutdown: (options = {}) => {
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

/** What waited for a workflow to be registered is to be looked for now. */
function wake({ recovery, dispatcher, scheduler }: AppParts): void {
  recovery.wake();
  dispatcher.wake();
  scheduler.wake();
}

/** Makes workflows known to the engine, and the engine to those who call them. */
export function attach(parts: AppParts, picked: Picked): void {
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

/** An instance that is constructed while the app runs becomes known to it; its work may have waited for it until now. */
function lateInstance(parts: AppParts): Watcher {
  return (workflows, { className, configName }) => {
    parts.engine.logger.warn(
      `The instance "${configName}" of class "${className}" was constructed after launch(): its unfinished work could ` +
        'not be recovered before. Construct instances first.',
    );
    attach(parts, { workflows, classes: [] });
    wake(parts);
  };
}

/** The opposite of {@link attach}: calls find other apps, or none. */
export function detach({ engine, watched }: AppParts): void {
  markClosed(engine);
  for (const stop of watched.values()) stop();
}

async function close(parts: AppParts, drainMs: number): Promise<void> {
  const { engine } = parts;
  engine.refuseStarts();
  // No new work is taken on while draining; deadlines and cancellations are still heeded.
  await Promise.all([parts.scheduler.stop(), parts.dispatcher.stop(), parts.recovery.stop()]);
  await engine.drain(drainMs);
  await Promise.all(parts.loops.map((loop) => loop.stop()));
  detach(parts);
  await engine.handOver();
  await parts.liveness.stop();
  await engine.news.stop();
  await engine.storage.close();
}
