import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { connect, queue, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, overTime, recordingLogger, tamper } from '../support/faults.js';

describeBackends('versions', (backend) => {
  const greet = () => workflow('greet', async (name: string) => `Hello ${name}`);
  const changedGreet = () => workflow('greet', async (name: string) => `Good morning ${name}`);
  const other = () => workflow('other', async () => 1);

  async function versionOf(...workflows: ReturnType<typeof other | typeof greet>[]): Promise<string> {
    const t = await backend.testApp({ workflows });
    return t.app.version;
  }

  it('are the same for the same source, in any order', async () => {
    const version = await versionOf(greet(), other());
    expect(version).toMatch(/^[0-9a-f]{32}$/);
    expect(await versionOf(other(), greet())).toBe(version);
  });

  it('differ if a workflow is changed, renamed, added or removed', async () => {
    const all = [
      await versionOf(greet(), other()),
      await versionOf(changedGreet(), other()),
      await versionOf(
        greet(),
        workflow('renamed', async () => 1),
      ),
      await versionOf(greet()),
    ];
    expect(new Set(all).size).toBe(4);
  });

  it('depend only on the workflows, not on the library, the app name, the database or the process', async () => {
    // Only name and source enter the hash: unfinished workflows must survive an upgrade of the library.
    const source = async (n: number) => n + 1;
    const n = { type: 'Identifier', name: 'n' };
    const sum = {
      type: 'BinaryExpression',
      operator: '+',
      left: n,
      right: { type: 'Literal', kind: 'number', value: '1' },
    };
    const arrow = { type: 'ArrowFunctionExpression', async: true, params: [n], expression: true, body: sum };
    const program = { type: 'Program', body: [{ type: 'ExpressionStatement', expression: arrow }] };
    const text = `frozen\0${JSON.stringify(program)}\0`;
    const expected = createHash('sha256').update(text).digest('hex').slice(0, 32);
    const t = await backend.testApp({ workflows: [workflow('frozen', source)], name: 'another name', executorId: 'e' });
    expect(t.app.version).toBe(expected);
  });

  it('do not depend on the formatting of the code, or on the tool that removed its types', async () => {
    const made = (text: string) => workflow('wf', new Function(`return ${text}`)() as () => Promise<number>);
    const one = await versionOf(made("async (x       ) => { /* why */ return [x, 'a',]\n }"));
    expect(await versionOf(made('async x=>{return[x,"a"]}'))).toBe(one);
    expect(await versionOf(made("async (x) => [x, 'a']"))).not.toBe(one);
  });

  it('cause a warning at launch about workflows without source, unless the version is given', async () => {
    const service = { add: async (n: number) => n + 1, take: async (n: number) => n - 1 };
    const bound = (fn: (n: number) => Promise<number>) => workflow('wf', fn.bind(service));
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [bound(service.add), greet()], logger });
    expect(logger.matching(/no source/)).toEqual([expect.stringMatching(/"wf": a bound.*launch\(\{ version \}\)/)]);
    await t.restart({ workflows: [bound(service.take)], version: 'v1' });
    await t.restart({ workflows: [greet()] });
    expect(logger.matching(/no source/)).toHaveLength(1);
  });

  it('are written to application_versions once each, and the newest becomes the latest', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, version: 'one' });
    await t.clock.advance('1m');
    const two = await t.restart({ version: 'two' });
    await two.clock.advance('1m');
    const twoAgain = await two.restart({ version: 'two' });
    expect((await twoAgain.app.versions.list()).map(({ name }) => name)).toEqual(['two', 'one']);
    expect(await twoAgain.app.versions.latest()).toMatchObject({ name: 'two' });
    const rows = await tamper(database, 'select version_name from application_versions order by version_timestamp');
    expect(rows.map((row) => row.version_name)).toEqual(['one', 'two']);
  });

  it('cause a warning at launch if they are not the latest, until they are made the latest', async () => {
    const logger = recordingLogger();
    const t = await backend.testApp({ version: 'one', logger });
    await t.clock.advance('1m');
    const two = await t.restart({ version: 'two' });
    expect(logger.matching(/latest/)).toEqual([]);
    const one = await two.restart({ version: 'one' });
    expect(logger.matching(/latest/)).toHaveLength(1);
    expect(logger.matching(/latest/)[0]).toMatch(/"one".*"two" is the latest.*setLatest/s);
    await one.app.versions.setLatest('one');
    expect(await one.app.versions.latest()).toMatchObject({ name: 'one' });
    await one.restart({ version: 'one' });
    expect(logger.matching(/latest/)).toHaveLength(1);
    expect(await failure(two.restart().then(({ app }) => app.versions.setLatest('tow')))).toMatchObject({
      code: 'INVALID_NAME',
      message: expect.stringContaining('Did you mean "two"?'),
    });
  });

  it('recover only their own work; work of another version waits for that version', async () => {
    const make = () =>
      workflow('wf', async () => {
        await sleep('1h');
        return 'done';
      });
    const old = make();
    const t = await backend.testApp({ workflows: [old], version: 'old' });
    const { id } = await old.start();
    await t.clock.advance('1m');
    const newer = await t.restart({ workflows: [make()], version: 'new' });
    await newer.app.recovery.recover(['test']);
    await newer.clock.advance('2h');
    expect(await newer.app.workflows.get(id)).toMatchObject({ status: 'PENDING', version: 'old', attempts: 1 });
    const back = await newer.restart({ workflows: [old], version: 'old' });
    expect(await back.app.workflows.handle(id).result()).toBe('done');
  });

  it('are named in a warning, at launch and at a start under a known ID, if they own unfinished work', async () => {
    const logger = recordingLogger();
    const slow = workflow('slow', async () => sleep('1d'));
    const one = await backend.testApp({ version: 'one', workflows: [slow], logger });
    await slow.with({ id: 'left-behind' }).start();
    await one.restart({ version: 'two' });
    expect(logger.lines).toEqual([
      expect.stringMatching(/^1 unfinished workflow belongs to version "one" and will not run in this process/),
    ]);
    await slow.with({ id: 'left-behind' }).start();
    expect(logger.lines.at(-1)).toMatch(/"left-behind" was already started by version "one"/);
  });

  it('are named in a warning if no process continues their work, but not while a live process does', async () => {
    const logger = recordingLogger();
    const slow = workflow('slow', () => sleep('1d'));
    const database = await backend.newDatabase();
    const common = { workflows: [slow], queues: [queue('q')], database, logger };
    const one = await backend.testApp({ ...common, version: 'one', executorId: 'e1' });
    const { clock } = one;
    const { id } = await slow.with({ app: one.app }).start();
    await clock.advance('1m');
    const two = await backend.testApp({ ...common, version: 'two', executorId: 'e2', clock });
    // Blue-green: both processes are alive, each with its own work, also on queues.
    for (const [app, version] of [
      [one.app, 'two'],
      [two.app, 'one'],
    ] as const) {
      await one.app.queues.pause('q');
      await slow.with({ app, queue: 'q', version }).start();
    }
    const client = await connect({ database, name: 'test', logger });
    await client.start('slow', { queue: 'q' });
    await client.close();
    for (let n = 0; n < 30; n++) await clock.advance('2s');
    expect(logger.lines).toEqual([]);
    expect(await two.app.recovery.incomplete({ workflowIds: [id] })).toMatchObject([{ executor: 'alive' }]);
    await one.app.shutdown();
    for (let n = 0; n < 20; n++) await clock.advance('2s');
    const queues = logger.matching(/the work is for version "one"/).map((line) => /queue "([^"]*)"/.exec(line)?.[1]);
    expect(queues.sort()).toEqual(['_dbos_internal_queue', 'q']);
    const plan = { action: 'other-version', at: null, because: expect.stringMatching(/handed it over.*version "one"/) };
    const listed = { workflowId: id, executor: 'none', executorId: undefined, plan };
    expect(await two.app.recovery.incomplete()).toMatchObject([listed]);
    for (const dryRun of [true, false]) {
      const report = await two.app.recovery.sweep({ dryRun });
      expect(report).toMatchObject({ taken: 0, stranded: 1, plan: [{ workflowId: id, action: 'other-version' }] });
    }
    logger.lines.length = 0;
    await two.restart({ version: 'three' });
    expect(logger.matching(/^1 unfinished workflow belongs to version "one"/)).toHaveLength(1);
  });

  it('dequeue only their own work after a hand-over', async () => {
    const wf = workflow('wf', async () => {
      await sleep('3m');
      return 'done';
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database, version: 'old' });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    await t.app.shutdown();
    const shared = { workflows: [wf], database, clock: t.clock };
    const newer = await backend.testApp({ ...shared, version: 'new', executorId: 'newer' });
    await newer.clock.advance('1m');
    expect(await newer.app.workflows.get(id)).toMatchObject({ status: 'ENQUEUED', attempts: 0 });
    const older = await backend.testApp({ ...shared, version: 'old', executorId: 'older' });
    expect(await overTime(t.clock, older.app.workflows.handle(id).result())).toBe('done');
  });
});
