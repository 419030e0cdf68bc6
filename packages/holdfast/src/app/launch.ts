import { clockSync, databaseClock } from '../engine/database-clock.js';
import type { StepProbe } from '../engine/execution/step-probe.js';
import { unknownQueue } from '../engine/queue/queue-cache.js';
import { Registry } from '../engine/registry.js';
import { whileLaunching } from '../engine/running-apps.js';
import { Runtime } from '../engine/runtime.js';
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
import { Liveness, type LivenessOptions } from '../recovery/liveness.js';
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
  type LaunchOptions,
  pickWorkflows,
} from './options.js';
import { versionOf } from './version.js';

/** What tests put in the place of the real thing. */
export interface Internals {
  /** Instead of the database's clock. */
  readonly clock?: Clock;
  /** Instead of the time after which an unanswered statement on Postgres is given up. */
  readonly answerTimeoutMs?: number;
  readonly probe?: StatementProbe;
  readonly beforeResolve?: () => void;
  readonly stepProbe?: StepProbe;
  readonly liveness?: LivenessOptions;
  /** Instead of the pace at which it is looked for what this process has let go of. */
  readonly reclaimEveryMs?: number;
  /** Receives the engine, and a way to stop the app as a crash would. */
  readonly onStart?: (engine: Runtime, abandon: () => Promise<void>) => void;
}

/**
 * Opens the database, brings its schema up to date, takes over what an earlier process left unfinished, and starts
 * the background services of an app.
 */
export function launch(options: LaunchOptions): Promise<App> {
  return whileLaunching(launchWith(options, {}));
}

export async function launchWith(options: LaunchOptions, internals: Internals): Promise<App> {
  const checked = checkLaunchOptions(options);
  const picked = pickWorkflows(options.workflows);
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
  const dispatcher = new Dispatcher(engine);
  const scheduler = new Scheduler(engine);
  const liveness = new Liveness(engine, livenessOptions(internals, checked.recovery.staleTimeoutMs));
  engine.versionsAlive = async () => {
    await liveness.look();
    return liveness.versions();
  };
  engine.peersOn = (queueName) => liveness.peersOn(queueName);
  engine.queueLoad.capacity.limit = checked.maxRunning;
  liveness.onReturn = () => dropLost(engine);
  engine.news.subscribe((topic) => {
    if (topic === null || topic === 'takeover') liveness.heardOfTakeover();
    if (topic === null || topic === 'executors') liveness.heardOfNewcomer();
  });
  const recovery = new Recovery({
    engine,
    deaths: liveness,
    settings: checked.recovery,
    isDeadHere,
    takeUp: () => dispatcher.takeUp(),
  });
  const loops = [deadlineSweep(engine), cancellationWatch(engine), evictIdle(engine, checked.suspendAfterMs)];
  if (checked.recovery.enabled) loops.push(reclaim(engine, internals.reclaimEveryMs));
  if (checked.retention) loops.push(retention(engine, checked.retention));
  if (clock instanceof DatabaseClock) loops.push(clockSync(engine.storage, clock, engine.logger));
  const parts: AppParts = { name, engine, recovery, dispatcher, scheduler, liveness, loops, watched: new Map() };
  const goneBack = new RestoredDatabase(engine, () => reread(parts, checked));
  engine.onBehind = (workflow) => goneBack.noteBehind(workflow);
  engine.onGone = (workflowId) => goneBack.noteGone(workflowId);
  liveness.onGoneBack = (why) => goneBack.all(why);
  liveness.onForgotten = () => reread(parts, checked);
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
  // Before anything can begin here: others must know of this process by then, or nobody would take its work over.
  await liveness.start();
  await warnOfOtherVersions(engine, liveness.versions());
  // Picked again: instances may have been constructed since.
  attach(parts, pickWorkflows(workflows));
  for (const loop of loops) loop.start();
  // First what was under way: back on its queue, it comes before what has only waited there.
  await recovery.start();
  await dispatcher.start();
  await scheduler.start();
}

/** After the database has gone back in time: what was put there at the launch may be gone, and what was read is not so. */
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
  scheduler.forget();
  dispatcher.forget();
  recovery.wake();
}

/** On a virtual clock time is what the clock says, and nothing else. */
function livenessOptions({ clock, liveness }: Internals, ttlMs: number): LivenessOptions {
  return { ttlMs, ...(clock && { monotonic: () => clock.now() }), ...liveness };
}

async function abandon(parts: AppParts): Promise<void> {
  const { engine, dispatcher, scheduler, liveness, loops, recovery } = parts;
  detach(parts);
  engine.abandon();
  const silent = liveness.abandon();
  const scheduling = scheduler.abandon();
  await engine.news.abandon();
  await Promise.all([scheduling, silent, recovery.stop(), dispatcher.stop(), ...loops.map((loop) => loop.stop())]);
  await engine.storage.close();
}

/** One that takes nothing from queues is no reason to keep unversioned work from those that do. */
async function registerVersion(engine: Runtime, asLatest: boolean): Promise<void> {
  const { storage, version, writer, clock, logger } = engine;
  const { appName } = writer;
  const latest = await storage.versions.register({ name: version, appName, asLatest, now: clock.now() });
  if (latest && latest.name !== version) {
    logger.warn(
      `This process runs version "${version}" of "${writer.appName}", but "${latest.name}" is the latest. ` +
        'New scheduled and unversioned work goes to the latest; app.versions.setLatest() changes which one that is.',
    );
  }
}

/** A changed workflow is a new version, and what the old one left unfinished waits for it: silently, but for this. */
async function warnOfOtherVersions(engine: Runtime, alive: ReadonlySet<string>): Promise<void> {
  const { storage, version, writer } = engine;
  const others = await storage.takeovers.otherVersions({ version, appName: writer.appName });
  // In a deploy the old version lives on until it is done. If its processes die before that, recovery says so.
  for (const other of others.filter((each) => !alive.has(each.version))) {
    engine.warnOnce(
      otherVersion(other.version),
      `${other.count} unfinished ${other.count === 1 ? 'workflow belongs' : 'workflows belong'} to version ` +
        `"${other.version}" and will not run in this process, which is version "${version}". A process with that code ` +
        `goes on with such work; so does this code under launch({ version: '${other.version}' }), if its steps still match. ` +
        "To change code under work that is unfinished: while you develop, launch({ dev: true }) or version: 'dev'; when " +
        'deployed, a version that stays, with patch() around each change.',
    );
  }
}

/** A queue may be registered later, but a name that is merely misspelt would never be worked on. */
async function warnOfUnknownQueues(engine: Runtime, listen: readonly string[] | undefined): Promise<void> {
  if (!listen?.some((name) => !engine.queueCache.get(name))) return;
  await engine.queueCache.refresh();
  for (const name of listen) {
    if (!engine.queueCache.get(name))
      engine.logger.warn(`launch({ listen }): ${unknownQueue(name, engine.queueCache.names()).message}`);
  }
}
