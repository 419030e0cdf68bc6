import { schedule } from '../../src/index.js';
import {
  type Attempt,
  count,
  expect7,
  letters,
  plain,
  standing,
  tick,
  type Write,
  type WriteRig,
  waiting,
} from './proxy-writes.js';

/** An operation on an existing object. The caller can repeat it; `found` reads what it changed. */
function told(
  name: string,
  at: string | RegExp,
  prepare: (rig: WriteRig, id: string) => Promise<Attempt>,
  onceDone?: string,
): Write {
  return { name, at, mended: 'told', prepare, ...(onceDone && { onceDone }) };
}

async function delayed(id: string): Promise<void> {
  await plain.with({ id, queue: 'paused', delay: '1h' }).start(id);
}

const steering: Write[] = [
  told('cancel', 'workflows.cancel', async (rig, id) => {
    await waiting(rig, id);
    return {
      call: () => rig.app.workflows.cancel(id),
      found: () => standing(rig, id),
      expected: { status: 'CANCELLED', attempts: 1, steps: 1 },
    };
  }),
  told('resume', 'workflows.resume', async (rig, id) => {
    await waiting(rig, id);
    await rig.app.workflows.cancel(id);
    return {
      call: async () => {
        await rig.app.workflows.resume(id);
        await letters.send(id, 7);
        await rig.app.workflows.handle(id).result();
      },
      found: async () => (await rig.sql(`select status, output from workflow_status where workflow_uuid = '${id}'`))[0],
      expected: { status: 'SUCCESS', output: expect7 },
    };
  }),
  told('delete', 'commit', async (rig, id) => {
    await plain.with({ id })(id);
    return {
      call: () => rig.app.workflows.delete(id),
      found: async () => [
        await standing(rig, id),
        await count(rig, `operation_outputs where workflow_uuid = '${id}'`),
        await plain.with({ id })(id),
      ],
      expected: [undefined, 0, 2],
    };
  }),
  told('setDelay', 'workflows.setDelay', async (rig, id) => {
    await delayed(id);
    return {
      call: () => rig.app.workflows.setDelay(id, '2h'),
      found: async () =>
        (
          await rig.sql(`select status, delay_until_epoch_ms - created_at > 7100000 as later
            from workflow_status where workflow_uuid = '${id}'`)
        )[0],
      expected: { status: 'DELAYED', later: true },
    };
  }),
  told('setPriority', 'workflows.setPriority', async (rig, id) => {
    await delayed(id);
    return {
      call: () => rig.app.workflows.setPriority(id, 9),
      found: async () => (await rig.sql(`select priority from workflow_status where workflow_uuid = '${id}'`))[0],
      expected: { priority: 9 },
    };
  }),
  told('versions.setLatest', 'versions.setLatest', async (rig) => ({
    call: () => rig.app.versions.setLatest(rig.app.version),
    found: async () => (await rig.app.versions.latest())?.name,
    expected: rig.app.version,
  })),
];

async function queueRow(rig: WriteRig, id: string): Promise<unknown> {
  const info = (await rig.app.queues.list()).find(({ name }) => name === id);
  return info && { concurrency: info.concurrency, paused: info.paused };
}

function onQueue(
  what: string,
  at: string | RegExp,
  change: (rig: WriteRig, id: string) => Promise<unknown>,
  then: unknown,
) {
  return told(
    `queues.${what}`,
    at,
    async (rig, id) => {
      if (what !== 'register') await rig.app.queues.register(id, { concurrency: 3 });
      return { call: () => change(rig, id), found: () => queueRow(rig, id), expected: then };
    },
    what === 'delete' ? 'UNKNOWN_QUEUE' : undefined,
  );
}

const queues: Write[] = [
  onQueue('register', 'queues.register', (rig, id) => rig.app.queues.register(id, { concurrency: 4 }), {
    concurrency: 4,
    paused: false,
  }),
  onQueue('update', 'queues.change', (rig, id) => rig.app.queues.update(id, { concurrency: 5 }), {
    concurrency: 5,
    paused: false,
  }),
  onQueue('pause', 'queues.change', (rig, id) => rig.app.queues.pause(id), { concurrency: 3, paused: true }),
  onQueue('resume', 'queues.change', (rig, id) => rig.app.queues.resume(id), { concurrency: 3, paused: false }),
  onQueue('delete', 'queues.remove', (rig, id) => rig.app.queues.delete(id), undefined),
];

/** Only the call knows the ID of a triggered run, so a caller who repeated the call would get a second run. */
const trigger: Write = {
  name: 'schedules.trigger',
  at: 'schedules.fire',
  mended: 'by itself',
  prepare: async (rig, id) => {
    await rig.app.schedules.create(yearly(id));
    return {
      call: async () => (await rig.app.schedules.trigger(id)).result(),
      found: () => ticks(rig, id),
      expected: 1,
    };
  },
};

/** Like a trigger: the call makes the ID of the fork. */
const forking: Write = {
  name: 'fork',
  at: 'workflows.fork',
  mended: 'by itself',
  prepare: async (rig, id) => {
    await plain.with({ id })(id);
    return {
      call: async () => (await rig.app.workflows.fork(id, { fromStep: 1 })).result(),
      found: () =>
        rig.sql(`select status, (select count(*)::int from operation_outputs o where o.workflow_uuid = w.workflow_uuid) as steps
          from workflow_status w where forked_from = '${id}'`),
      expected: [{ status: 'SUCCESS', steps: 1 }],
    };
  },
};

const yearly = (id: string) => schedule(id, '0 0 1 1 *', tick);
const ticks = (rig: WriteRig, id: string) => count(rig, `workflow_status where schedule_name = '${id}'`);

function onSchedule(
  what: string,
  at: string | RegExp,
  change: (rig: WriteRig, id: string) => Promise<unknown>,
  found: (rig: WriteRig, id: string) => Promise<unknown>,
  expected: unknown,
  onceDone?: string,
): Write {
  const prepare = async (rig: WriteRig, id: string): Promise<Attempt> => {
    if (what !== 'create') await rig.app.schedules.create(yearly(id));
    return { call: () => change(rig, id), found: () => found(rig, id), expected };
  };
  return told(`schedules.${what}`, at, prepare, onceDone);
}

const statusOf = async (rig: WriteRig, id: string) =>
  (await rig.sql(`select status, schedule as cron from workflow_schedules where schedule_name = '${id}'`))[0];
const range = { from: '2020-06-01', to: '2023-06-01' };

const schedules: Write[] = [
  onSchedule(
    'create',
    'schedules.create',
    (rig, id) => rig.app.schedules.create(yearly(id)),
    statusOf,
    { status: 'ACTIVE', cron: '0 0 1 1 *' },
    'SCHEDULE_EXISTS',
  ),
  onSchedule(
    'update',
    /^update "dbos"\.workflow_schedules set/,
    (rig, id) => rig.app.schedules.update(id, { cron: '0 0 2 1 *' }),
    statusOf,
    {
      status: 'ACTIVE',
      cron: '0 0 2 1 *',
    },
  ),
  onSchedule('pause', 'schedules.setStatus', (rig, id) => rig.app.schedules.pause(id), statusOf, {
    status: 'PAUSED',
    cron: '0 0 1 1 *',
  }),
  onSchedule(
    'delete',
    'schedules.remove',
    (rig, id) => rig.app.schedules.delete(id),
    statusOf,
    undefined,
    'SCHEDULE_NOT_FOUND',
  ),
  onSchedule('backfill', 'schedules.fire', (rig, id) => rig.app.schedules.backfill(id, range), ticks, 3),
];

/** Operations from outside workflows. If one fails, its caller gets the error and may repeat it. */
export const steeringWrites: readonly Write[] = [...steering, ...queues, ...schedules, trigger, forking];
