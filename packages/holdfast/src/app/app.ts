import { noteClosed, noteRunning, standFor } from '../engine/app-engine.js';
import type { Engine } from '../engine/engine.js';
import type { Executions } from '../engine/executions.js';
import type { WorkflowHandle } from '../engine/handle.js';
import type { Loop } from '../engine/loop.js';
import { workflowInternals } from '../engine/workflow.js';
import { type VersionOperations, versionOperations } from '../management/versions.js';
import { type WorkflowOperations, workflowOperations } from '../management/workflows.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions } from '../model/options.js';
import type { Dispatcher } from '../queues/dispatcher.js';
import { type QueueOperations, queueOperations } from '../queues/operations.js';
import type { Recovery } from '../recovery/recovery.js';
import { type ScheduleOperations, scheduleOperations } from '../schedules/operations.js';
import type { Scheduler } from '../schedules/scheduler.js';
import { type AnyWorkflow, pickWorkflows } from './options.js';

/** A running application: what `launch` returns. */
export interface App {
  readonly name: string;
  readonly executorId: string;
  readonly version: string;
  readonly workflows: WorkflowOperations;
  readonly queues: QueueOperations;
  readonly schedules: ScheduleOperations;
  readonly versions: VersionOperations;
  readonly recovery: {
    /** Takes over the PENDING work of executors that are known to be dead. */
    recover(executorIds: readonly string[]): Promise<WorkflowHandle[]>;
  };
  /** Registers more workflows; what waited for them in recovery is run at once. */
  register(...workflows: AnyWorkflow[]): void;
  /** Lets work go on for up to `drain` (default: not at all), then hands over what is unfinished and closes. */
  shutdown(options?: { readonly drain?: Duration }): Promise<void>;
}

export interface AppParts {
  readonly name: string;
  readonly engine: Executions;
  readonly recovery: Recovery;
  readonly dispatcher: Dispatcher;
  readonly scheduler: Scheduler;
  readonly loops: readonly Loop[];
  /** The workflows that know of the engine, to be told when it is gone. */
  readonly registered: Set<AnyWorkflow>;
}

export function createApp(parts: AppParts): App {
  const { engine, recovery, dispatcher, scheduler, registered } = parts;
  let closing: Promise<void> | undefined;
  const app: App = {
    name: parts.name,
    executorId: engine.writer.executorId,
    version: engine.version,
    workflows: workflowOperations(engine),
    queues: queueOperations(engine),
    schedules: scheduleOperations(engine),
    versions: versionOperations(engine),
    recovery: {
      recover: (executorIds) => {
        engine.checkOpen();
        for (const id of executorIds) checkName('An executor ID', id);
        return recovery.recover(executorIds);
      },
    },
    register: (...workflows) => {
      engine.checkOpen();
      attach(engine, workflows, registered);
      recovery.wake();
      dispatcher.wake();
      scheduler.wake();
    },
    shutdown: (options = {}) => {
      checkKnownOptions('shutdown()', options, ['drain']);
      const drainMs = parseDuration(options.drain ?? 0, 'The drain of shutdown()');
      closing ??= close(parts, drainMs);
      return closing;
    },
  };
  standFor(app, engine);
  noteRunning(engine);
  return app;
}

/** Makes workflows known to the engine, and the engine to the workflows, so that calling one finds its app. */
function attach(engine: Engine, workflows: readonly AnyWorkflow[], registered: Set<AnyWorkflow>): void {
  for (const each of pickWorkflows(workflows)) {
    const own = workflowInternals(each);
    if (!own) continue;
    engine.registry.add(own.definition);
    own.engines.add(engine);
    registered.add(each);
  }
}

/** The opposite of {@link attach}: calls find other apps, or none. */
export function detach(engine: Engine, registered: ReadonlySet<AnyWorkflow>): void {
  noteClosed(engine);
  for (const each of registered) workflowInternals(each)?.engines.delete(engine);
}

async function close(parts: AppParts, drainMs: number): Promise<void> {
  const { engine, registered } = parts;
  engine.refuseStarts();
  // No new work is taken on while draining; deadlines and cancellations are still heeded.
  await Promise.all([parts.scheduler.stop(), parts.dispatcher.stop(), parts.recovery.stop()]);
  await engine.drain(drainMs);
  await Promise.all(parts.loops.map((loop) => loop.stop()));
  detach(engine, registered);
  await engine.handOver();
  await engine.news.stop();
  await engine.storage.close();
}
