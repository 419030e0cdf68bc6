import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { type Client, connect, queue, run, topic, transaction, workflow } from '../../src/index.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { fitsAppFile, libraries, plainest, renaming } from '../support/datasources.js';
import { failure, tamper } from '../support/faults.js';
import { counter, openUserDataIn } from '../support/user-data.js';

const parcels = queue('parcels');
const ship = workflow('ship', async (parcel: string) => run('ship', () => `${parcel} shipped`));
const approval = topic<string>('approval');
const wait = workflow('wait', async () => approval.receive({ timeout: '1d' }));
const refund = new Error('changed my mind');

describeBackends('the outbox', (backend) => {
  for (const library of libraries.filter((each) => each.dialect === backend.name && fitsAppFile(each))) {
    it(`starts a workflow and sends a message only if the caller commits, through ${library.name}`, async () => {
      const { client, database, app } = await open(backend);
      const data = await openUserDataIn(database, library);
      await app.clock.advance(0);
      await wait.with({ id: 'waiting' }).start();
      const order = async (id: string, fail: boolean) =>
        data.datasource.transact({}, async (tx) => {
          await data.add(tx, 'orders', 1);
          const handle = await client.startIn<string>(tx, 'ship', { id, queue: parcels, attributes: { a: 'b"c' } }, id);
          await approval.sendIn(tx, 'waiting', `of ${id}`, { app: client, idempotencyKey: id });
          if (fail) throw refund;
          return handle;
        });
      expect(await failure(order('first', true))).toBe(refund);
      expect(await tamper(database, "select 1 from workflow_status where workflow_uuid = 'first'")).toEqual([]);
      expect(await tamper(database, 'select 1 from notifications')).toEqual([]);
      const handle = await order('second', false);
      expect(await handle.result()).toBe('second shipped');
      expect(await client.workflows.handle('waiting').result()).toBe('of second');
      expect(await counter(database, 'orders')).toBe(1);
      expect(await client.workflows.get('second')).toMatchObject({ attributes: { a: 'b"c' } });
    });
  }

  for (const library of renaming.filter((each) => each.dialect === backend.name && fitsAppFile(each))) {
    it(`sends once, and returns the same workflow for a repeated start, through ${library.name}`, async () => {
      const { client, database } = await open(backend);
      const data = await openUserDataIn(database, library);
      await client.queues.pause('parcels');
      const waiting = await wait.start();
      const start = () =>
        data.datasource.transact({}, (tx) => client.startIn(tx, 'ship', { id: 'a', queue: parcels }, 'a'));
      expect([(await start()).id, (await start()).id]).toEqual(['a', 'a']);
      await data.datasource.transact({}, (tx) => approval.sendIn(tx, waiting.id, 'yes', { app: client }));
      expect(await waiting.result()).toBe('yes');
    });
  }

  it('refuses with a typed error what start() and send() refuse, and leaves the transaction usable', async () => {
    const { client, database } = await open(backend);
    const data = await openUserDataIn(database, plainest[backend.name]);
    await client.queues.pause('parcels');
    await client.start('ship', { queue: parcels, id: 'taken', dedupId: 'same' }, 'a');
    const codes = await data.datasource.transact({}, async (tx) => {
      await data.add(tx, 'orders', 1);
      const code = (call: Promise<unknown>) => failure(call).then((error) => error.code);
      const start = (...[name, options]: [string, object]) => code(client.startIn(tx, name, options));
      return [
        await start('ship', { queue: 'parcles' }),
        await start('ship', { queue: parcels, dedupId: 'same' }),
        await start('refund', { id: 'taken' }),
        await start('ship', { prioritty: 1 }),
        await start('', {}),
        await code(client.startIn(tx, 'ship', {}, () => {})),
        await code(approval.sendIn(tx, 'nobody', 'yes', { app: client })),
        await code(approval.sendIn(tx, '', 'yes', { app: client })),
      ];
    });
    expect(codes).toEqual([
      'UNKNOWN_QUEUE',
      'QUEUE_DUPLICATE',
      'WORKFLOW_CONFLICT',
      'INVALID_OPTION',
      'INVALID_NAME',
      'UNSERIALIZABLE',
      'WORKFLOW_NOT_FOUND',
      'INVALID_NAME',
    ]);
    expect(await counter(database, 'orders')).toBe(1);
  });

  it('returns the existing workflow of the same ID, or of the same deduplication ID if asked to', async () => {
    const { client, database } = await open(backend);
    const data = await openUserDataIn(database, plainest[backend.name]);
    const first = await client.start('ship', { queue: parcels, id: 'one', dedupId: 'same', delay: '1h' }, 'a');
    const options = { queue: parcels, dedupId: 'same', onDuplicate: 'return-existing' } as const;
    const [held, same] = await data.datasource.transact({}, async (tx) => [
      await client.startIn(tx, 'ship', options, 'b'),
      await client.startIn(tx, 'ship', { queue: parcels, id: 'one' }, 'c'),
    ]);
    expect([held?.id, same?.id]).toEqual([first.id, first.id]);
    const another = data.datasource.transact({}, (tx) => client.startIn(tx, 'bill', options, 'd'));
    expect(await failure(another)).toMatchObject({ code: 'QUEUE_DUPLICATE', message: /"one", of "ship"/ });
  });

  it('starts a workflow once from inside a transaction of another workflow', async () => {
    const { client, database, app } = await open(backend);
    const data = await openUserDataIn(database, plainest[backend.name]);
    const order = transaction(data.datasource, 'order', async (tx, id: string) => {
      await data.add(tx, 'orders', 1);
      return (await client.startIn(tx, 'ship', { id: `parcel of ${id}` }, id)).id;
    });
    const shop = workflow('shop', async (id: string) => order(id));
    app.app.register(shop);
    expect(await shop('7')).toBe('parcel of 7');
    expect(await client.workflows.handle('parcel of 7').result()).toBe('7 shipped');
    const inWorkflow = workflow('in workflow', async () => client.startIn({}, 'ship', {}));
    app.app.register(inWorkflow);
    expect(await failure(inWorkflow())).toMatchObject({ code: 'UNSUPPORTED_CALL' });
  });

  it('refuses a value that is not an open transaction, and a transaction of another database', async () => {
    const { client, database } = await open(backend);
    const other = await backend.emptyDatabase();
    const { datasource } = await openUserDataIn(database, plainest[backend.name]);
    const things: unknown[] = [undefined, null, 7, 'tx', {}, () => {}, { query: 'no function' }, datasource];
    if (backend.name === 'sqlite') {
      const outside = openSqlite(database);
      onTestFinished(() => void outside.close());
      things.push(outside);
    } else {
      const pool = new pg.Pool({ connectionString: database });
      onTestFinished(() => pool.end());
      things.push(pool);
    }
    for (const thing of things) {
      const error = await failure(client.startIn(thing, 'ship', {}, 'a'));
      expect(error).toMatchObject({ code: 'INVALID_OPTION', message: /client of pg.*node:sqlite.*better-sqlite3/ });
      expect(await failure(approval.sendIn(thing, 'x', 'a', { app: client }))).toMatchObject({
        code: 'INVALID_OPTION',
      });
    }
    // One database without our tables, and one with the same tables.
    for (const url of [other, await backend.newDatabase()]) {
      const data = await openUserDataIn(url, plainest[backend.name]);
      await data.datasource.transact({}, async (tx) => {
        await data.add(tx, 'orders', 1);
        const refused = { code: 'INVALID_OPTION', message: /another database/ };
        expect(await failure(client.startIn(tx, 'ship', {}, 'a'))).toMatchObject(refused);
        expect(await failure(approval.sendIn(tx, 'x', 'a', { app: client }))).toMatchObject(refused);
      });
      expect(await counter(url, 'orders')).toBe(1);
    }
  });
});

describeBackends('the outbox on Postgres', announcing, ['postgres']);
describeBackends('the outbox on Postgres', refusing, ['postgres']);

function announcing(backend: Backend): void {
  it('notifies other processes of a start at the commit, and not before', async () => {
    const { client, database } = await open(backend);
    const data = await openUserDataIn(database, plainest.postgres);
    const listener = new pg.Client(database);
    await listener.connect();
    onTestFinished(() => listener.end());
    await listener.query('listen holdfast_dbos');
    const heard: string[] = [];
    const told = new Promise<void>((resolve) => {
      listener.on('notification', ({ payload = '' }) => {
        if (payload.includes('queue:parcels')) heard.push(payload);
        if (heard.length > 0) resolve();
      });
    });
    await data.datasource.transact({}, async (tx) => {
      await client.startIn(tx, 'ship', { queue: parcels }, 'a');
      await listener.query('select 1');
      expect(heard).toEqual([]);
    });
    await told;
  });
}

function refusing(backend: Backend): void {
  it('refuses a client on which no transaction has begun, and leaves the client as it was', async () => {
    const { client, database } = await open(backend);
    const idle = new pg.Client(database);
    await idle.connect();
    onTestFinished(() => idle.end());
    const calls = [
      () => client.startIn(idle, 'ship', { id: 'a' }, 'a'),
      () => approval.sendIn(idle, 'x', 'a', { app: client }),
    ];
    for (const call of calls) {
      expect(await failure(call())).toMatchObject({
        code: 'INVALID_OPTION',
        message: /no transaction has begun.*'begin'/,
      });
    }
    expect(await tamper(database, "select 1 from workflow_status where workflow_uuid = 'a'")).toEqual([]);
    await idle.query('begin');
    expect((await client.startIn(idle, 'ship', { id: 'a' }, 'a')).id).toBe('a');
    await idle.query('commit');
    expect(await client.workflows.handle('a').result()).toBe('a shipped');
  });

  it.each([
    ['usage on schema dbos'],
    ['select on dbos.workflow_status'],
    ['insert on dbos.notifications'],
    ['update on dbos.queues'],
    ['usage on sequence dbos.holdfast_enqueue_seq'],
    ['usage on sequence dbos.holdfast_message_seq'],
  ])('refuses a role without %s, and leaves its transaction usable', async (right) => {
    const { client, database } = await open(backend);
    await wait.with({ id: 'waiting' }).start();
    const role = `r${Math.random().toString(36).slice(2, 10)}`;
    const rights = [
      'usage on schema dbos',
      'all on all tables in schema dbos',
      'usage on all sequences in schema dbos',
    ];
    await tamper(database, `create role ${role} login password 'secret'`);
    for (const each of rights) await tamper(database, `grant ${each} to ${role}`);
    const theirs = new pg.Client(Object.assign(new URL(database), { username: role, password: 'secret' }).toString());
    await theirs.connect();
    onTestFinished(() => theirs.end());
    const outcomes = async () => {
      await theirs.query('begin');
      const calls = [
        () => client.startIn(theirs, 'ship', {}, 'a'),
        () => approval.sendIn(theirs, 'waiting', 'a', { app: client }),
      ];
      const codes: unknown[] = [];
      for (const call of calls)
        codes.push(
          await call().then(
            () => 'done',
            (error) => error.code,
          ),
        );
      await theirs.query('commit');
      return codes;
    };
    expect(await outcomes()).toEqual(['done', 'done']);
    await tamper(database, `revoke ${right} from ${role}`);
    const isOf = (pattern: RegExp) => (pattern.test(right) ? 'INVALID_OPTION' : 'done');
    expect(await outcomes()).toEqual([isOf(/schema|status|queues|enqueue/), isOf(/schema|status|notif|message/)]);
  });
}

/** Launches an app that runs the queue in real time, and connects a client. */
async function open(backend: Backend) {
  const database = await backend.newDatabase();
  const app = await backend.testApp({ database, workflows: [ship, wait], queues: [parcels], clock: 'real' });
  const client: Client = await connect({ name: 'test', database, logger: silent });
  onTestFinished(() => client.close());
  return { client, database, app };
}
