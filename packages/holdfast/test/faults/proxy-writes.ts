import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import {
  type App,
  type Client,
  debouncer,
  event,
  run,
  sleep,
  stream,
  topic,
  transaction,
  workflow,
} from '../../src/index.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import type { FaultProxy } from './proxy.js';

/** An app behind a fault proxy, and direct access to its tables. */
export interface WriteRig {
  readonly app: App;
  readonly client: Client;
  readonly proxy: FaultProxy;
  /** The application's own pool on the same database, through the proxy. */
  readonly pool: pg.Pool;
  /** Runs a statement without the proxy. */
  sql(text: string): Promise<Record<string, unknown>[]>;
}

/** One write API of the library, with what must be true of it whatever happens to its statement. */
export interface Write {
  readonly name: string;
  /** The statement that makes the write, and its number within the call. */
  readonly at: string | RegExp;
  readonly nth?: number;
  /**
   * `by itself`: the library repeats the write until it is certain, and the call succeeds. `told`: the call may fail
   * with a typed error, and the caller can then repeat it.
   */
  readonly mended: 'by itself' | 'told';
  /** The error of a repetition if the first call took effect after all. */
  readonly onceDone?: string;
  /** Prepares the write under an unused ID. The fault is armed only after that. */
  prepare(rig: WriteRig, id: string): Promise<Attempt>;
}

export interface Attempt {
  call(): Promise<unknown>;
  /** Reads the final state without the proxy. The test compares it with `expected`. */
  found(): Promise<unknown>;
  readonly expected: unknown;
}

/** How often bodies of steps ran, by their key. */
export const bodies = new Map<string, number>();
const body = (key: string): number => {
  bodies.set(key, (bodies.get(key) ?? 0) + 1);
  return bodies.get(key) as number;
};

export const letters = topic<number>('letters');
const progress = event<number>('progress');
const log = stream<number>('log');

export const plain = workflow('plain', async (id: string) => run('body', () => body(id)));
const twoSteps = workflow('twoSteps', async (id: string) => {
  await run('first', () => body(`${id}/first`));
  await run('second', () => body(`${id}/second`));
});
const sleeper = workflow('sleeper', async (id: string) => {
  await sleep(20);
  return run('awake', () => body(id));
});
const parent = workflow('parent', async (id: string) => plain.with({ id: `${id}/child` })(id));
const queueParent = workflow('queueParent', async (id: string) =>
  plain
    .with({ id: `${id}/child`, queue: 'jobs' })
    .start(id)
    .then((handle) => handle.result()),
);
const setter = workflow('setter', async () => progress.set(50));
const writer = workflow('writer', async () => {
  await log.write(1);
  await log.write(2);
  await log.close();
});
const sender = workflow('sender', async (to: string) => letters.send(to, 7));
/** Ends on a signal from the test. */
const waiter = workflow('waiter', async () => letters.receive({ timeout: '1h' }));
export const tick = workflow('tick', async (_at: Date) => {});

export const workflows = [...[plain, twoSteps, sleeper, parent, queueParent, setter, writer, sender, waiter, tick]];

const success = (steps: number, attempts = 1) => ({ status: 'SUCCESS', attempts, steps });

/** Status, attempts and number of recorded steps of a workflow. */
export async function standing(rig: WriteRig, id: string): Promise<unknown> {
  const [row] = await rig.sql(
    `select status, recovery_attempts::int as attempts, (select count(*)::int from operation_outputs o
     where o.workflow_uuid = w.workflow_uuid) as steps from workflow_status w where workflow_uuid = '${id}'`,
  );
  return row;
}

export async function count(rig: WriteRig, from: string): Promise<number> {
  return Number((await rig.sql(`select count(*) as n from ${from}`))[0]?.n);
}

/** A running workflow that only waits for a message. */
export async function waiting(rig: WriteRig, id: string): Promise<void> {
  await waiter.with({ id }).start();
  while ((await rig.sql(`select 1 from operation_outputs where workflow_uuid = '${id}'`)).length === 0) await delay(5);
}

/** Runs a workflow to its end. */
function runs(name: string, at: string, make: (id: string) => Ran, nth = 1): Write {
  return {
    name,
    at,
    nth,
    mended: 'by itself',
    prepare: async (rig, id) => {
      const { call, steps, counted = [id], also = async () => undefined, alsoExpected } = make(id);
      return {
        call,
        found: async () => [await standing(rig, id), counted.map((key) => bodies.get(key)), await also(rig)],
        expected: [success(steps), counted.map(() => 1), alsoExpected],
      };
    },
  };
}

interface Ran {
  call(): Promise<unknown>;
  readonly steps: number;
  readonly counted?: string[];
  also?(rig: WriteRig): Promise<unknown>;
  readonly alsoExpected?: unknown;
}

const starts: Write[] = [
  runs('start', 'workflows.insert', (id) => ({ call: () => plain.with({ id })(id), steps: 1 })),
  runs('start on a queue', 'workflows.enqueue', (id) => ({
    call: async () => (await plain.with({ id, queue: 'jobs' }).start(id)).result(),
    steps: 1,
  })),
  runs('start of a batch', 'workflows.enqueueAll', (id) => ({
    call: async () => {
      const each = (_: unknown, i: number) => ({ id: i === 0 ? id : `${id}/${i}` });
      const handles = await plain.with({ queue: 'jobs' }).startAll([[id], [`${id}/1`], [`${id}/2`]], each);
      await Promise.all(handles.map((handle) => handle.result()));
    },
    steps: 1,
    counted: [id, `${id}/1`, `${id}/2`],
    also: (rig) => count(rig, `workflow_status where workflow_uuid like '${id}%'`),
    alsoExpected: 3,
  })),
  runs('start of a child', 'workflows.insertChild', (id) => ({ call: () => parent.with({ id })(id), steps: 2 })),
  runs('start of a child on a queue', 'workflows.enqueueChild', (id) => ({
    call: () => queueParent.with({ id })(id),
    steps: 2,
  })),
  runs('claim from a queue', 'workflows.dequeue-shared', (id) => ({
    call: async () => (await plain.with({ id, queue: 'jobs' }).start(id)).result(),
    steps: 1,
  })),
  runs('claim from a queue with limits', 'workflows.dequeue-exclusive', (id) => ({
    call: async () => (await plain.with({ id, queue: 'limited' }).start(id)).result(),
    steps: 1,
  })),
];

const running: Write[] = [
  runs('checkpoint of a step', 'steps.record', (id) => ({
    call: () => twoSteps.with({ id })(id),
    steps: 2,
    counted: [`${id}/first`, `${id}/second`],
  })),
  runs('beginning of a sleep', 'steps.record', (id) => ({ call: () => sleeper.with({ id })(id), steps: 2 })),
  runs('end of a sleep', 'steps.complete', (id) => ({ call: () => sleeper.with({ id })(id), steps: 2 })),
  runs('finish', 'workflows.finish', (id) => ({ call: () => plain.with({ id })(id), steps: 1 })),
  runs('event.set in a workflow', 'steps.record-effects', (id) => ({
    call: () => setter.with({ id })(),
    steps: 1,
    counted: [],
    also: (rig) => count(rig, `workflow_events_history where workflow_uuid = '${id}'`),
    alsoExpected: 1,
  })),
  ...['first write', 'second write', 'close'].map((what, i) =>
    runs(
      `${what} of a stream`,
      'steps.record-effects',
      (id) => ({
        call: () => writer.with({ id })(),
        steps: 3,
        counted: [],
        also: (rig) => count(rig, `streams where workflow_uuid = '${id}'`),
        alsoExpected: 3,
      }),
      i + 1,
    ),
  ),
];

const messages: Write[] = [
  {
    name: 'send from a workflow',
    at: 'steps.record-effects',
    mended: 'by itself',
    prepare: async (rig, id) => {
      await waiting(rig, `${id}/to`);
      return {
        call: async () => [await sender.with({ id })(`${id}/to`), await rig.app.workflows.handle(`${id}/to`).result()],
        found: async () => [
          await standing(rig, id),
          await count(rig, `notifications where destination_uuid = '${id}/to'`),
        ],
        expected: [success(1), 1],
      };
    },
  },
  ...(['send', 'sendAll'] as const).map(
    (how): Write => ({
      name: `${how} from outside`,
      at: `messages.${how}`,
      mended: 'by itself',
      prepare: async (rig, id) => {
        await waiting(rig, id);
        return {
          call: async () => {
            if (how === 'send') await letters.send(id, 7);
            else await letters.sendAll([7, 8].map((value) => ({ to: id, value })));
            return rig.app.workflows.handle(id).result();
          },
          found: async () => {
            const [row] = await rig.sql(`select status, output from workflow_status where workflow_uuid = '${id}'`);
            return [row?.status, row?.output, await count(rig, `notifications where destination_uuid = '${id}'`)];
          },
          expected: ['SUCCESS', expect7, how === 'send' ? 1 : 2],
        };
      },
    }),
  ),
  {
    name: 'receive',
    at: 'steps.record-effects',
    mended: 'by itself',
    prepare: async (rig, id) => {
      // The workflow must be waiting already. Otherwise it might find the message at once and record nothing before
      // it.
      await waiting(rig, id);
      return {
        call: async () => {
          for (const value of [7, 8]) await letters.send(id, value);
          return rig.app.workflows.handle(id).result();
        },
        found: async () => [
          (await rig.sql(`select output from workflow_status where workflow_uuid = '${id}'`))[0]?.output,
          await count(rig, `notifications where destination_uuid = '${id}' and consumed`),
        ],
        expected: [expect7, 1],
      };
    },
  },
  {
    name: 'debounce',
    at: 'workflows.debounce',
    mended: 'by itself',
    prepare: async (rig, id) => {
      const calm = debouncer(plain);
      return {
        call: async () => (await calm.debounce(id, 100, id)).result(),
        found: async () => [
          bodies.get(id),
          await count(rig, `workflow_status where name = 'plain' and inputs like '%"${id}"%'`),
        ],
        expected: [1, 1],
      };
    },
  },
];
export const expect7 = '{"json":7,"__dbos_serializer":"superjson"}';

/** A transaction on the app's own database: its record commits with its changes. */
function inTransaction(name: string, at: string | RegExp, nth = 1): Write {
  return {
    name,
    at,
    nth,
    mended: 'by itself',
    prepare: async (rig, id) => {
      const bump = transaction(pgDatasource(rig.pool), `bump ${id}`, async (tx) => {
        await tx.query('insert into public.bumps values ($1)', [id]);
      });
      const bumper = workflow(`bumper ${id}`, async () => bump());
      // The checks of the datasource are not under test. Their results are cached from here on.
      rig.app.register(bumper);
      return {
        call: () => bumper.with({ id })(),
        found: async () => [await standing(rig, id), await count(rig, `public.bumps where id = '${id}'`)],
        expected: [success(1), 1],
      };
    },
  };
}

const transactions: Write[] = [
  inTransaction('record of a transaction', /^insert into "dbos".operation_outputs/),
  inTransaction('commit of a transaction', 'commit', 2),
  {
    name: 'startIn',
    at: 'commit',
    mended: 'told',
    prepare: async (rig, id) => ({
      // An application would do the same: repeat the call from the beginning, under the same ID.
      call: async () => {
        await inOwnTransaction(rig, async (tx) => {
          await rig.client.startIn(tx, 'plain', { id, queue: 'jobs' }, id);
        });
        await rig.app.workflows.handle(id).result();
      },
      found: async () => [await standing(rig, id), bodies.get(id)],
      expected: [success(1), 1],
    }),
  },
];

/** Errors of this transaction belong to the application, not to the library. */
async function inOwnTransaction(rig: WriteRig, work: (tx: pg.PoolClient) => Promise<void>): Promise<void> {
  const tx = await rig.pool.connect();
  const lost = (): void => {};
  tx.on('error', lost);
  try {
    await tx.query('begin');
    await work(tx);
    await tx.query('commit');
    tx.release();
  } catch (error) {
    tx.release(true);
    throw new OwnError(error);
  } finally {
    tx.off('error', lost);
  }
}

export class OwnError extends Error {
  constructor(cause: unknown) {
    super('A transaction of the application failed.', { cause });
  }
}

export const ownWrites: readonly Write[] = [...starts, ...running, ...messages, ...transactions];
