import { expect, it } from 'vitest';
import { run, type Topic, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, gate, tamper } from '../support/faults.js';
import { openUserDataIn } from '../support/user-data.js';

type Receiver = (count: number) => Promise<string[]>;

/** Receives `count` messages once `go` opens, and then waits for `hold`. */
const receiver = (letters: Topic<string>, go: { promise: Promise<unknown> }, hold: { promise: Promise<unknown> }) =>
  workflow('receiver', (async (count) => {
    await run('go', () => go.promise.then(() => {}));
    const received: string[] = [];
    while (received.length < count) received.push((await letters.receive()) ?? 'nothing');
    await run('hold', () => hold.promise.then(() => {}));
    return received;
  }) as Receiver);

// P5: a message is never lost. A message that does not fit in the inbox is therefore refused where it is sent.
describeBackends('an inbox', (backend) => {
  const open = async (letters: Topic<string>, count = 1, more: Parameters<typeof backend.testApp>[0] = {}) => {
    const [go, hold] = [gate(), gate()];
    const wf = receiver(letters, go, hold);
    const database = await backend.newDatabase();
    const { workflows = [], ...options } = more;
    const t = await backend.testApp({ workflows: [wf, ...(workflows as [])], database, ...options });
    await wf.with({ id: 'w' }).start(count);
    const waiting = async () =>
      Number((await tamper(database, 'select count(*) as n from notifications where consumed = false'))[0]?.n);
    return { t, go, hold, database, waiting };
  };

  it('refuses messages from every sender while it is full', async () => {
    const letters = topic<string>('letters', { maxWaiting: 3 });
    const says = workflow('says', async () => {
      const codes = [
        (await failure(letters.send('w', 'from a workflow'))).code,
        (await failure(run('says', () => letters.send('w', 'from a step')))).code,
      ];
      await run('hold', () => said.promise.then(() => {}));
      return codes;
    });
    const said = gate();
    const { t, go, hold, database, waiting } = await open(letters, 2, { workflows: [says] });
    await letters.send('w', 'a');
    expect(await failure(letters.sendAll(['b', 'c', 'd'].map((value) => ({ to: 'w', value }))))).toMatchObject({
      code: 'INBOX_FULL',
      message: expect.stringMatching(
        /^Topic "letters": nothing was sent, .* workflow "w" is full.* 1 messages .* limit is 3 messages/,
      ),
    });
    await letters.sendAll(['b', 'c'].map((value) => ({ to: 'w', value, idempotencyKey: value })));
    const full = {
      code: 'INBOX_FULL',
      details: { workflowId: 'w', waiting: 3, bytes: expect.any(Number), maxWaiting: 3 },
    };
    expect(await failure(letters.send('w', 'd'))).toMatchObject(full);
    // Repeating a message that is already there adds no message.
    await letters.send('w', 'c', { idempotencyKey: 'c' });
    const data = await openUserDataIn(database, plainest[backend.name === 'postgres' ? 'postgres' : 'sqlite']);
    expect(await failure(data.datasource.transact({}, (tx) => letters.sendIn(tx, 'w', 'd')))).toMatchObject(full);
    const handle = await says.with({ id: 's' }).start();
    while ((await t.app.workflows.steps('s')).length < 2) await t.clock.advance(0);
    expect(await waiting()).toBe(3);
    go.open();
    while ((await waiting()) > 1) await t.clock.advance(0);
    await letters.send('w', 'd');
    expect(await waiting()).toBe(2);
    // The refusals are recorded: a replay gets the same errors, although there is room now.
    const again = await t.restart();
    said.open();
    hold.open();
    expect(await again.app.workflows.handle('s').result()).toEqual(['INBOX_FULL', 'INBOX_FULL']);
    expect(await again.app.workflows.handle(handle.id).status()).toMatchObject({ status: 'SUCCESS' });
    expect(await again.app.workflows.handle('w').result()).toEqual(['a', 'b']);
  });

  it('takes no more messages than its limit from one transaction, even before the transaction commits', async () => {
    const letters = topic<string>('letters', { maxWaiting: 3 });
    const { waiting, database } = await open(letters);
    await letters.send('w', 'a');
    const data = await openUserDataIn(database, plainest[backend.name === 'postgres' ? 'postgres' : 'sqlite']);
    const told: string[] = [];
    await data.datasource.transact({}, async (tx) => {
      for (const key of ['b', 'c', 'c', 'd', 'e']) {
        const sending = letters.sendIn(tx, 'w', key, { idempotencyKey: key });
        told.push(
          await sending.then(
            () => 'sent',
            (error) => error.code,
          ),
        );
      }
    });
    expect(told).toEqual(['sent', 'sent', 'sent', 'INBOX_FULL', 'INBOX_FULL']);
    expect(await waiting()).toBe(3);
  });

  it('takes no more bytes than its limit', async () => {
    const letters = topic<string>('letters', { maxWaitingBytes: 10_000 });
    const { waiting } = await open(letters);
    for (let i = 0; i < 2; i++) await letters.send('w', 'x'.repeat(4_900));
    expect(await failure(letters.send('w', 'x'.repeat(200)))).toMatchObject({
      code: 'INBOX_FULL',
      details: { waiting: 2 },
    });
    await letters.send('w', 'x');
    expect(await waiting()).toBe(3);
  });

  it('is never overfilled by one process, however many messages the process sends at once', async () => {
    const letters = topic<string>('letters', { maxWaiting: 7 });
    const { waiting } = await open(letters);
    const sent = await Promise.allSettled(Array.from({ length: 50 }, (_, i) => letters.send('w', `${i}`)));
    expect(sent.filter(({ status }) => status === 'fulfilled')).toHaveLength(await waiting());
    expect(await waiting()).toBeLessThanOrEqual(7);
    expect(await waiting()).toBeGreaterThan(0);
  });

  it('is overfilled by several processes by at most one percent for each process', async () => {
    const letters = topic<string>('letters', { maxWaiting: 200 });
    const { database, waiting } = await open(letters);
    const others = await Promise.all(
      ['b', 'c'].map((executorId) => backend.testApp({ workflows: [], database, executorId })),
    );
    const value = '{"json":"x","__dbos_serializer":"superjson"}';
    const rows = Array.from({ length: 200 }, (_, i) => `('m${i}', 'w', 'letters', '${value}', 1)`);
    // SQL and DBOS do not enforce the limit.
    await tamper(
      database,
      `insert into notifications (message_uuid, destination_uuid, topic, message, created_at_epoch_ms) values ${rows.join()}`,
    );
    for (const { app } of others) {
      const results = await Promise.allSettled(Array.from({ length: 5 }, () => letters.send('w', 'x', { app })));
      expect(results.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(2);
      expect(await failure(letters.send('w', 'x', { app }))).toMatchObject({ code: 'INBOX_FULL' });
    }
    expect(await waiting()).toBeLessThanOrEqual(204);
  });

  it('has its own limit for each workflow and each topic', async () => {
    const [letters, others] = [topic<string>('letters', { maxWaiting: 1 }), topic<string>('others', { maxWaiting: 1 })];
    const { t } = await open(letters);
    await letters.send('w', 'x');
    await others.send('w', 'x');
    expect(await failure(letters.send('nobody', 'x'))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await t.app.workflows.messages('w')).toHaveLength(2);
  });

  it.each([{ maxWaiting: 0 }, { maxWaiting: 1.5 }, { maxWaitingBytes: -1 }, { toEnded: 'drop' }])(
    'refuses the options %j',
    (options) => {
      expect(() => topic('x', options as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
    },
  );
});

describeBackends('a message to a workflow that has ended', (backend) => {
  const quick = workflow('quick', async () => 'done');
  const slow = workflow('slow', async (hold: boolean) => {
    if (hold) await run('hold', () => new Promise<never>(() => {}));
  });

  it('is kept, unless its topic refuses it', async () => {
    const [kept, refused] = [topic<string>('kept'), topic<string>('refused', { toEnded: 'refuse' })];
    const t = await backend.testApp({ workflows: [quick, slow] });
    await quick.with({ id: 'ended' })();
    const running = await slow.with({ id: 'running' }).start(true);
    await refused.send('running', 'x', { idempotencyKey: 'k' });
    await kept.send('ended', 'x');
    const message =
      /nothing was sent, because workflow "ended" has ended \(SUCCESS\) and would never receive the message/;
    const ended = { code: 'WORKFLOW_ENDED', details: { workflowId: 'ended', status: 'SUCCESS' } };
    expect(await failure(refused.send('ended', 'x'))).toMatchObject({
      ...ended,
      message: expect.stringMatching(message),
    });
    const both = ['running', 'ended'].map((to) => ({ to, value: 'x' }));
    expect(await failure(refused.sendAll(both))).toMatchObject(ended);
    await running.cancel();
    expect(await failure(refused.send('running', 'y'))).toMatchObject({ code: 'WORKFLOW_ENDED' });
    // Repeating a message that was sent in time succeeds.
    await refused.send('running', 'x', { idempotencyKey: 'k' });
    expect(await failure(refused.send('nobody', 'x'))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await t.app.workflows.messages('running')).toHaveLength(1);
    expect(await t.app.workflows.messages('ended')).toHaveLength(1);
  });
});
