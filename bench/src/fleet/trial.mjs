/**
 * Owns how a fleet is measured. A fleet has worker processes, two bystanders that neither send nor receive, and a
 * starter that runs no workflows. All processes share one database with the commit delay of the case. The fleet is idle
 * first. Then it gets one item at a time on an idle queue (without and with a limit), and then a backlog. Finally all
 * workers send messages. A trial whose items or messages do not add up is void.
 *
 * @typedef {'worker' | 'bystander' | 'starter'} Role
 * @typedef {'drain' | 'idle' | 'limited' | 'mailboxes'} Queue
 *
 * @typedef {object} Post describes the member that an adapter opens
 * @property {string} url
 * @property {Role} role
 * @property {(input: number) => void} body what an item must call, before anything else, with its input
 *
 * @typedef {object} OpenMember one process of the fleet
 * @property {(queue: Queue) => Promise<unknown>} [pause]
 * @property {(queue: Queue) => Promise<unknown>} [resume]
 * @property {(queue: Queue, input: number) => Promise<unknown>} [enqueue] resolves when the item is committed
 * @property {(queue: Queue, inputs: number[]) => Promise<unknown>} [enqueueAll]
 * @property {(id: string) => Promise<unknown>} openMailbox creates the receiver of messages, which does not run yet
 * @property {(id: string, number: number) => Promise<unknown>} send resolves when the message is committed
 * @property {(id: string) => Promise<number>} readMailbox checks the received messages, and resolves with their number
 * @property {() => Promise<unknown>} close
 *
 * @typedef {object} FleetAdapter
 * @property {boolean} [onlySends] whether the system is measured only for messages
 * @property {(post: Post) => Promise<OpenMember>} open the starter is opened first, and creates the schema
 *
 * @typedef {{ workers: number, commitMs: number }} FleetCase
 */
import { percentile } from '../drive.mjs';
import { until } from '../queue/fleet.mjs';
import { balance, clock } from '../queue/ledger.mjs';
import { openRows } from '../rows.mjs';
import { measureCommit, openGauges } from './gauges.mjs';
import { openFleet } from './members.mjs';

/** @param {boolean} quick */
function amounts(quick) {
  return {
    // During this time, idle connections of a pool are closed.
    idleMs: quick ? 3_000 : 20_000,
    pickUps: quick ? 20 : 200,
    limitedPickUps: quick ? 10 : 100,
    backlog: quick ? 1_000 : 10_000,
    sendSeconds: quick ? 1 : 4,
  };
}

/** The pause between two items, in which the fleet becomes idle. It is random, so no timer can be in step with it. */
const pauseMs = { least: 30, most: 70 };

/**
 * @param {object} trial
 * @param {import('../postgres.mjs').PostgresServer} trial.server
 * @param {string} trial.database
 * @param {string} trial.url
 * @param {import('../catalogue.mjs').System} trial.system
 * @param {FleetCase} trial.fleetCase
 * @param {boolean} trial.quick
 * @returns {Promise<Record<string, number>>}
 */
export async function measureFleet({ server, database, url, system, fleetCase, quick }) {
  const commitMs = await measureCommit(url, fleetCase.commitMs);
  const plan = amounts(quick);
  const onlySends = system.fleet?.onlySends === true;
  const fleet = await openFleet({ url, system, workers: fleetCase.workers, told: plan.pickUps + plan.limitedPickUps });
  const gauges = openGauges(server, database);
  try {
    const stage = { fleet, gauges, plan, url };
    const idle = onlySends ? undefined : await measureIdle(stage);
    const pickedUp = idle && (await measurePickUps(stage, idle));
    const endWatch = gauges.watchSessions();
    const drained = onlySends ? {} : await measureDrain(stage);
    const sent = await measureMessages(stage);
    const busySessions = await endWatch();
    const pages = await fleet.close();
    if (!onlySends) balance(pages, plan.pickUps + plan.limitedPickUps + plan.backlog);
    return defined({ commitMs, ...idle, ...pickedUp, ...drained, ...sent, ...(!onlySends && { busySessions }) });
  } finally {
    await fleet.stop();
  }
}

/** @param {Record<string, number | undefined>} values @returns {Record<string, number>} */
function defined(values) {
  return Object.fromEntries(
    Object.entries(values).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
}

/** @typedef {{ fleet: Awaited<ReturnType<typeof openFleet>>, gauges: ReturnType<typeof openGauges>, plan: ReturnType<typeof amounts>, url: string }} Stage */

/** Measures the cost of the fleet while it is idle. @param {Stage} stage */
async function measureIdle({ gauges, plan }) {
  await pause(plan.idleMs / 2);
  const before = await gauges.read();
  await pause(plan.idleMs / 2);
  const after = await gauges.read();
  const sessions = await gauges.sessions();
  return {
    idleStatements: ((after.statements - before.statements) / (after.at - before.at)) * 1000,
    idleSessions: sum(sessions) / sessions.length,
  };
}

/**
 * Enqueues one item at a time, on a queue without limits and on a queue with a limit for the whole fleet.
 *
 * @param {Stage} stage
 * @param {{ idleStatements: number }} idle
 */
async function measurePickUps({ fleet, gauges, plan }, { idleStatements }) {
  const onQueue = async (/** @type {Queue} */ queue, /** @type {number} */ first, /** @type {number} */ items) => {
    const before = await gauges.read();
    /** @type {number[]} */
    const enqueuedAt = [];
    for (let input = first; input < first + items; input++) {
      await pause(pauseMs.least + Math.random() * (pauseMs.most - pauseMs.least));
      const started = fleet.nextStart();
      const { at } = await fleet.starter('enqueue', queue, input);
      enqueuedAt[input] = at;
      await started;
    }
    await pause(pauseMs.most);
    const after = await gauges.read();
    const background = (idleStatements * (after.at - before.at)) / 1000;
    return {
      enqueuedAt,
      statements: (after.statements - before.statements - background) / items,
      multixacts: (after.multixacts - before.multixacts) / items,
    };
  };
  const free = await onQueue('idle', 0, plan.pickUps);
  const limited = await onQueue('limited', plan.pickUps, plan.limitedPickUps);
  const startedAt = balance(await fleet.pages(), plan.pickUps + plan.limitedPickUps);
  const took = (/** @type {number[]} */ enqueuedAt) =>
    Object.entries(enqueuedAt)
      .map(([input, at]) => startedAt[Number(input)] - at)
      .sort((a, b) => a - b);
  return {
    pickUpP50: percentile(took(free.enqueuedAt), 0.5),
    pickUpP99: percentile(took(free.enqueuedAt), 0.99),
    statements: free.statements,
    multixacts: free.multixacts * 1000,
    limitedP50: percentile(took(limited.enqueuedAt), 0.5),
    limitedStatements: limited.statements,
  };
}

/** Measures a backlog on a paused queue, from its resumption until no item is unfinished. @param {Stage} stage */
async function measureDrain({ fleet, gauges, plan, url }) {
  const first = plan.pickUps + plan.limitedPickUps;
  await fleet.starter('pause', 'drain');
  await fleet.starter(
    'enqueueAll',
    'drain',
    Array.from({ length: plan.backlog }, (_, index) => first + index),
  );
  const rows = await openRows(url);
  const before = await gauges.read();
  const { at: began } = await fleet.starter('resume', 'drain');
  const pending = async () =>
    (
      await rows.query(
        `select exists (select from dbos.workflow_status where queue_name = $1
      and status in ('ENQUEUED', 'PENDING')) as pending`,
        'drain',
      )
    )[0].pending;
  // The database is queried only after all bodies have started. Earlier queries would slow the measured work.
  await until(async () => (await fleet.started()) >= first + plan.backlog, 20);
  await until(async () => !(await pending()), 2);
  const ended = clock();
  const after = await gauges.read();
  await rows.close();
  return {
    drain: (plan.backlog / (ended - began)) * 1000,
    drainMultixacts: ((after.multixacts - before.multixacts) / plan.backlog) * 1000,
  };
}

/** Every worker sends to its own receiver, one message at a time. @param {Stage} stage */
async function measureMessages({ fleet, plan }) {
  const { workers } = fleet;
  await fleet.starter('pause', 'mailboxes');
  for (const { name } of workers) await fleet.starter('openMailbox', name);
  const send = (/** @type {number} */ seconds, /** @type {number[]} */ first) =>
    Promise.all(
      workers.map((worker, i) => worker.ask({ do: 'sendFor', mailbox: worker.name, first: first[i], seconds })),
    );
  const warmUp = await send(
    plan.sendSeconds / 4,
    workers.map(() => 0),
  );
  const cpuBefore = await fleet.cpuOfBystanders();
  const lots = await send(
    plan.sendSeconds,
    warmUp.map(({ sent }) => sent),
  );
  const cpuAfter = await fleet.cpuOfBystanders();
  await fleet.starter('resume', 'mailboxes');
  await Promise.all(
    workers.map(async ({ name, ask }, i) => {
      const { result: got } = await ask({ do: 'callMember', method: 'readMailbox', args: [name] });
      const sent = warmUp[i].sent + lots[i].sent;
      if (got !== sent) throw new Error(`A receiver got ${got} of ${sent} messages.`);
    }),
  );
  const took = Math.max(...lots.map(({ ended }) => ended)) - Math.min(...lots.map(({ began }) => began));
  const shares = cpuBefore.map(({ at, ms }, i) => (cpuAfter[i].ms - ms) / (cpuAfter[i].at - at));
  return {
    messages: (sum(lots.map(({ sent }) => sent)) / took) * 1000,
    bystanderCpu: shares.length > 0 ? (sum(shares) / shares.length) * 100 : undefined,
  };
}

/** @param {number[]} values */
function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
