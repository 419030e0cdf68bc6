import { createCodecs } from '../codec/codec.js';
import { Executions } from '../engine/executions.js';
import { Loop } from '../engine/loop.js';
import { Registry } from '../engine/registry.js';
import { type Clock, DatabaseClock } from '../model/clock.js';
import { internalQueueWorker } from '../queues/internal-queue.js';
import { cancellationWatch } from '../recovery/cancellations.js';
import { deadlineSweep } from '../recovery/deadlines.js';
import { type FindDead, Recovery } from '../recovery/recovery.js';
import { openStorage } from '../storage/open.js';
import type { StatementProbe } from '../storage/probe.js';
import type { Storage } from '../storage/storage.js';
import { type App, type AppParts, createApp, detach } from './app.js';
import { generateExecutorId, isDeadHere } from './executor-id.js';
import {
  type CheckedOptions,
  checkLaunchOptions,
  definitionsOf,
  type LaunchOptions,
  pickWorkflows,
} from './options.js';
import { computeVersion } from './version.js';

/** What tests put in the place of the real thing. */
export interface Internals {
  /** Instead of the database's clock. */
  readonly clock?: Clock;
  /** Instead of the time after which an unanswered statement on Postgres is given up. */
  readonly answerTimeoutMs?: number;
  readonly probe?: StatementProbe;
  readonly beforeResolve?: () => void;
  /** Receives the engine, and a way to stop the app as a crash would. */
  readonly onStart?: (engine: Executions, abandon: () => Promise<void>) => void;
}

/**
 * Opens the database, brings its schema up to date, takes over what an earlier process left unfinished, and starts
 * the background services of an app.
 */
export function launch(options: LaunchOptions): Promise<App> {
  return launchWith(options, {});
}

export async function launchWith(options: LaunchOptions, internals: Internals): Promise<App> {
  const checked = checkLaunchOptions(options);
  const workflows = pickWorkflows(options.workflows);
  const registry = new Registry();
  for (const definition of definitionsOf(workflows)) registry.add(definition);
  const codecs = createCodecs(options.serializer ? { serializer: options.serializer } : {});
  const { probe, answerTimeoutMs, beforeResolve } = internals;
  const storage = await openStorage({
    ...checked,
    applicationName: checked.name,
    ...(answerTimeoutMs && { answerTimeoutMs }),
    ...(probe && { probe }),
  });
  try {
    const clock = internals.clock ?? (await databaseClock(storage));
    const engine = new Executions({
      writer: { executorId: options.executorId ?? generateExecutorId(), appName: checked.name },
      version: options.version ?? computeVersion(registry.all()),
      storage,
      clock,
      codecs,
      logger: checked.logger,
      registry,
      ...(beforeResolve && { beforeResolve }),
    });
    return await assemble(engine, checked, workflows, internals);
  } catch (error) {
    await storage.close().catch(() => {});
    throw error;
  }
}

async function assemble(
  engine: Executions,
  { name, logger }: CheckedOptions,
  workflows: ReturnType<typeof pickWorkflows>,
  internals: Internals,
): Promise<App> {
  const { clock } = engine;
  const queue = internalQueueWorker(engine);
  const recovery = new Recovery(engine, findDead(engine), () => queue.wake());
  const loops = [deadlineSweep(engine), cancellationWatch(engine)];
  if (clock instanceof DatabaseClock) loops.push(clockSync(engine.storage, clock, logger));
  const parts: AppParts = { name, engine, recovery, queue, loops, registered: new Set() };
  const app = createApp(parts);
  internals.onStart?.(engine, () => abandon(parts));
  await registerVersion(engine);
  await warnOfOtherVersions(engine);
  app.register(...workflows);
  for (const loop of loops) loop.start();
  queue.start();
  queue.wake();
  await recovery.start();
  return app;
}

/** Work under this executor's own ID (at launch), and of dead processes on this host, is free to take. */
function findDead(engine: Executions): FindDead {
  const { version, writer } = engine;
  return async (when) => {
    const pending = await engine.storage.workflows.pendingExecutors({ version, appName: writer.appName });
    return pending.filter((id) => (id === writer.executorId ? when === 'launch' : isDeadHere(id)));
  };
}

async function abandon({ engine, queue, loops, recovery, registered }: AppParts): Promise<void> {
  detach(engine, registered);
  engine.abandon();
  await Promise.all([recovery.stop(), queue.stop(), ...loops.map((loop) => loop.stop())]);
  await engine.storage.close();
}

async function registerVersion(engine: Executions): Promise<void> {
  const { storage, version, writer, clock, logger } = engine;
  await storage.versions.register({ name: version, appName: writer.appName, now: clock.now() });
  const [latest] = await storage.versions.list(writer.appName);
  if (latest && latest.name !== version) {
    logger.warn(
      `This process runs version "${version}" of "${writer.appName}", but "${latest.name}" is the latest. ` +
        'New scheduled and unversioned work goes to the latest; app.versions.setLatest() changes which one that is.',
    );
  }
}

/** A changed workflow is a new version, and what the old one left unfinished waits for it: silently, but for this. */
async function warnOfOtherVersions(engine: Executions): Promise<void> {
  const { storage, version, writer, logger } = engine;
  const others = await storage.workflows.pendingOfOtherVersions({ version, appName: writer.appName });
  for (const other of others) {
    logger.warn(
      `${other.count} unfinished ${other.count === 1 ? 'workflow belongs' : 'workflows belong'} to version ` +
        `"${other.version}" and will not run in this process, which is version "${version}". A process with that code ` +
        `goes on with such work; so does this code under launch({ version: '${other.version}' }), if its steps still match.`,
    );
  }
}

const clockSyncMs = 30_000;

async function databaseClock(storage: Storage): Promise<DatabaseClock> {
  const clock = new DatabaseClock();
  await readClock(storage, clock);
  return clock;
}

async function readClock(storage: Storage, clock: DatabaseClock): Promise<void> {
  const requestedAt = performance.now();
  const serverNow = await storage.now();
  clock.sync(serverNow, requestedAt, performance.now());
}

function clockSync(storage: Storage, clock: DatabaseClock, logger: CheckedOptions['logger']): Loop {
  const runOnce = () => readClock(storage, clock);
  return new Loop({ name: 'Reading the database clock', everyMs: clockSyncMs, clock, logger, runOnce });
}
