import { clockSync, databaseClock } from '../engine/database-clock.js';
import type { StepProbe } from '../engine/execution/step-probe.js';
import { unknownQueue } from '../engine/queue/queue-cache.js';
import { Registry } from '../engine/registry.js';
import { whileLaunching } from '../engine/running-apps.js';
import { Runtime } from '../engine/runtime.js';
import { crash } from '../engine/shutdown.js';
import { evictIdle } from '../engine/suspend/evict-idle.js';
import { otherVersion } from '../engine/warn-once.js';
import { retention } from '../management/retention.js';
import { type Clock, DatabaseClock } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import { Dispatcher } from '../queues/dispatcher.js';
import { checkQueueOwners, registerQueues } from '../queues/operations.js';
import { cancellationWatch } from '../recovery/cancellations.js';
import { deadlineSweep } from '../recovery/deadlines.js';
import { dropLost } from '../recovery/drop-lost.js';
import { Liveness } from '../recovery/liveness.js';
import type { LivenessOptions } from '../recovery/liveness-options.js';
import { reclaim } from '../recovery/reclaim.js';
import { Recovery } from '../recovery/recovery.js';
import { RestoredDatabase } from '../recovery/restored-database.js';
import { applySchedules } from '../schedules/operations.js';
import { keyOf } from '../schedules/schedule.js';
import { Scheduler } from '../schedules/scheduler.js';
import type { StatementProbe } from '../storage/contract/probe.js';
import { openStorage } from '../storage/open.js';
import { type App, type AppParts, attach, createApp, detach } from './app.js';
import { generateExecutorId, isDeadHere } from './executor-id.js';
import {
  addTo,
  type CheckedOptions,
  checkLaunchOptions,
  codeOf,
  collectWorkflows,
  type LaunchOptions,
} from './options.js';
import { versionOf } from './version.js';

/** Replacements for parts of an app in tests. */
export interface Internals {
  /** Replaces the clock of the database. */
  readonly clock?: Clock;
  /** Replaces the time to wait for the answer to a statement on Postgres. */
  readonly answerTimeoutMs?: number;
  readonly probe?: StatementProbe;
  readonly beforeResolve?: () => void;
  readonly stepProbe?: StepProbe;
  readonly liveness?: LivenessOptions;
  /** Replaces the interval of the check for workflows that no longer run in this process. */
  readonly reclaimEveryMs?: number;
  /** Receives the engine, and a way to stop the app as a crash would. */
  readonly onStart?: (engine: Runtime, abandon: () => Promise<void>) => void;
}

/**
 * Starts an app: opens the database, brings its schema up to date, registers the workflows, recovers unfinished work
 * of earlier processes, and starts to work on queues and schedules. Call it once, when the process starts.
 *
 * @example
 * const checkout = workflow('checkout', async (order: Order) => {
 *   const receipt = await run('charge', () => bank.charge(order));
 *   await run('ship', () => warehouse.ship(order));
 *   return receipt;
 * });
 * const app = await launch({ name: 'shop', workflows: [checkout] });
 * await checkout.with({ id: 'order-7' })(order);
 * process.once('SIGTERM', () => app.shutdown({ drain: '10s' }));
 */
export function launch(options: LaunchOptions): Promise<App> {
  return whileLaunching(launchWith(options, {}));
}

/** The function behind `launch()`, with replacements for tests. */
export async function launchWith(options: LaunchOptions, internals: Internals): Promise<App> {
  const checked = checkLaunchOptions(options);
  const picked = collectWorkflows(options.workflows);
  const registry = new Registry(checked.recovery, internals.stepProbe);
  addTo(registry, picked);
  for (const each of checked.schedules) registry.require(keyOf(each));
  const { probe, answerTimeoutMs, beforeResolve } = internals;
  const storage = await openStorage({
    ...checked,
    applicationName: checked.name,
    checksRights: true,
    ...(answerTimeoutMs && { answerTimeoutMs }),
    ...(probe && { probe }),
  });
  try {
    const clock = internals.clock ?? (await databaseClock(storage));
    const engine = new Runtime({
      writer: { executorId: options.executorId ?? generateExecutorId(), appName: checked.name },
      version: await versionOf(options, codeOf(picked), checked.logger),
      storage,
      clock,
      codecs: checked.codecs,
      logger: checked.logger,
      registry,
      listen: checked.listen,
      maxRunning: checked.maxRunning,
      ...(beforeResolve && { beforeResolve }),
    });
    return await assemble(engine, checked, options.workflows, internals);
  } catch (error) {
    await storage.close().catch(() => {});
    throw error;
  }
}

async function assemble(
  engine: Runtime,
  checked: CheckedOptions,
  workflows: LaunchOptions['workflows'],
  internals: Internals,
): Promise<App> {
  const { name } = checked;
  const { clock } = engine;
  const liveness = new Liveness(
    engine,
    {
      onPossibleLoss: () => dropLost(engine),
      onRollback: (why) => restored.parkAll(why),
      onRowLost: () => reread(parts, checked),
    },
    livenessOptions(internals, checked.recovery.staleTimeoutMs),
  );
  const restored = new RestoredDatabase(engine, () => reread(parts, checked));
  const dispatcher = new Dispatcher(engine, liveness);
  const scheduler = new Scheduler(engine);
  engine.events.on('resultsLost', (workflow) => restored.noteBehind(workflow));
  engine.events.on('rowMissing', (workflowId) => restored.noteGone(workflowId));
  engine.news.subscribe((topic) => {
    if (topic === null || topic === 'takeover') liveness.noteTakeover();
    if (topic === null || topic === 'executors') liveness.noteJoin();
  });
  const recovery = new Recovery({
    engine,
    deaths: liveness,
    settings: checked.recovery,
    isDeadHere,
    claimNow: () => dispatcher.pollNow(),
  });
  const loops = [deadlineSweep(engine), cancellationWatch(engine), evictIdle(engine, checked.suspendAfterMs)];
  if (checked.recovery.enabled) loops.push(reclaim(engine, internals.reclaimEveryMs));
  if (checked.retention) loops.push(retention(engine, checked.retention));
  if (clock instanceof DatabaseClock) loops.push(clockSync(engine.storage, clock, engine.logger));
  const parts: AppParts = { name, engine, recovery, dispatcher, scheduler, liveness, loops, watched: new Map() };
  const app = createApp(parts);
  internals.onStart?.(engine, () => abandon(parts));
  try {
    await start(parts, checked, workflows);
  } catch (error) {
    detach(parts);
    await liveness.stop();
    await engine.news.abandon();
    throw error;
  }
  return app;
}

async function start(
  parts: AppParts,
  { queues, listen, schedules }: CheckedOptions,
  workflows: LaunchOptions['workflows'],
): Promise<void> {
  const { engine, dispatcher, recovery, scheduler, liveness, loops } = parts;
  await checkQueueOwners(engine, queues);
  await registerVersion(engine, listen?.length !== 0);
  await registerQueues(engine, queues);
  await warnOfUnknownQueues(engine, listen);
  await applySchedules(engine, schedules, engine.version);
  await engine.news.start(liveness.presence);
  // This comes before any claim: if this process died while unknown to others, no process would take over its work.
  await liveness.start();
  await warnOfOtherVersions(engine, liveness.versions());
  // The workflows are collected again, because more instances may exist now than at the beginning of the launch.
  attach(parts, collectWorkflows(workflows));
  for (const loop of loops) loop.start();
  // Recovery comes first: a workflow that was running before goes back on its queue ahead of work that only waited
  // there.
  await recovery.start();
  await dispatcher.start();
  await scheduler.start();
}

/**
 * Called after the database has gone back in time. Registers again what the launch registered, and drops cached data.
 */
async function reread(parts: AppParts, { queues, listen, schedules }: CheckedOptions): Promise<void> {
  const { engine, dispatcher, recovery, scheduler } = parts;
  const register = async (): Promise<void> => {
    await registerVersion(engine, listen?.length !== 0);
    await registerQueues(engine, queues);
    await applySchedules(engine, schedules, engine.version);
    await engine.queueCache.refresh();
  };
  await engine.untilAnswered('Registering queues and schedules again', register).catch((error) => {
    engine.logger.error(`Queues and schedules could not be registered again: ${describeError(error)}`);
  });
  scheduler.resetAfterRestore();
  dispatcher.resetAfterRestore();
  recovery.wake();
}

/** With a virtual clock, liveness uses that clock instead of the monotonic clock of the process. */
function livenessOptions({ clock, liveness }: Internals, ttlMs: number): LivenessOptions {
  return { ttlMs, ...(clock && { monotonic: () => clock.now() }), ...liveness };
}

/** Stops an app as a crash would: it writes nothing more, and hands over nothing. */
async function abandon(parts: AppParts): Promise<void> {
  const { engine, dispatcher, scheduler, liveness, loops, recovery } = parts;
  detach(parts);
  crash(engine);
  const unseen = liveness.abandon();
  const scheduling = scheduler.abandon();
  await engine.news.abandon();
  await Promise.all([scheduling, unseen, recovery.stop(), dispatcher.stop(), ...loops.map((loop) => loop.stop())]);
  await engine.storage.close();
}

/**
 * Registers the version. `asLatest` is false for a process that works on no queue: its version could not run
 * unversioned work.
 */
async function registerVersion(engine: Runtime, asLatest: boolean): Promise<void> {
  const { storage, version, writer, clock, logger } = engine;
  const { appName } = writer;
  const latest = await storage.versions.register({ name: version, appName, asLatest, now: clock.now() });
  if (latest && latest.name !== version) {
    logger.warn(
      `This process runs version "${version}" of "${writer.appName}", but "${latest.name}" is the latest. ` +
        'New scheduled and unversioned work goes to the latest version. app.versions.setLatest() changes it.',
    );
  }
}

/**
 * Warns about unfinished work of other versions. Without the warning, nobody would know that this work waits for a
 * process of its version.
 */
async function warnOfOtherVersions(engine: Runtime, alive: ReadonlySet<string>): Promise<void> {
  const { storage, version, writer } = engine;
  const others = await storage.takeovers.otherVersions({ version, appName: writer.appName });
  // During a deploy the old version runs until its work is done. If its processes die before that, recovery warns about
  // the unfinished work.
  for (const other of others.filter((each) => !alive.has(each.version))) {
    engine.warnOnce(
      otherVersion(other.version),
      `${other.count} unfinished ${other.count === 1 ? 'workflow belongs' : 'workflows belong'} to version ` +
        `"${other.version}" and will not run in this process, which is version "${version}". A process with that ` +
        `code continues such work; so does this code with launch({ version: '${other.version}' }), if its steps ` +
        "still match. To change code while work is unfinished, use launch({ dev: true }) or version: 'dev' in " +
        'development. In production, use a fixed version, and patch() around each change.',
    );
  }
}

/**
 * Warns about unknown queue names. Such a queue may be registered later, but a misspelled name would never get work.
 */
async function warnOfUnknownQueues(engine: Runtime, listen: readonly string[] | undefined): Promise<void> {
  if (!listen?.some((name) => !engine.queueCache.get(name))) return;
  await engine.queueCache.refresh();
  for (const name of listen) {
    if (!engine.queueCache.get(name))
      engine.logger.warn(`launch({ listen }): ${unknownQueue(name, engine.queueCache.names()).message}`);
  }
}
