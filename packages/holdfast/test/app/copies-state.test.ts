import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import * as own from '../../src/index.js';
import { event, registerClass, run, stream, transaction, workflow } from '../../src/index.js';
import { sqliteTransactions } from '../../src/storage/caller/adapters/sqlite-transactions.js';
import { checkDatasource } from '../../src/storage/caller/datasource.js';
import { openExclusively } from '../../src/storage/sqlite/copies.js';
import { loadDriver } from '../../src/storage/sqlite/drivers.js';
import { describeBackends } from '../support/backends.js';
import { anotherCopy, anotherCopyOf, anotherRelease } from '../support/copies.js';
import { failure, gate, thrown } from '../support/faults.js';

type Package = typeof own;

describeBackends('two copies of the package in one execution', (backend) => {
  let other: Package;
  beforeAll(async () => {
    other = await anotherCopy();
  });

  it('deliver each message once (P5)', async () => {
    const wf = workflow('wf', async () => {
      const receives = [own, other, own, other].map((copy) => copy.topic<number>('t').receive());
      return Promise.all(receives);
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    for (const [i, copy] of [own, other, other, own].entries()) await copy.topic<number>('t').send(id, i);
    expect(await t.app.workflows.handle(id).result()).toEqual([0, 1, 2, 3]);
  });

  it('write nothing to a stream that one of them has closed', async () => {
    const wf = workflow('wf', async () => {
      await stream<string>('s').write('value');
      await stream<string>('s').close();
      await other.stream<string>('s').close();
      return failure(other.stream<string>('s').write('late')).then(({ code }) => code);
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    expect(await handle.result()).toBe('STREAM_CLOSED');
    expect((await t.app.workflows.steps(handle.id)).filter(({ name }) => name === 'DBOS.closeStream')).toHaveLength(1);
  });

  it('write events and stream values in the order of the calls', async () => {
    const slow = gate();
    const serializer = {
      name: 'slow-first',
      stringify: async (value: unknown) => {
        if (value === 'slow') await slow.promise;
        return JSON.stringify(value) ?? 'null';
      },
      parse: (text: string): unknown => JSON.parse(text),
    };
    const wf = workflow('wf', async () => {
      const writes = [stream<string>('s').write('slow'), other.stream<string>('s').write('quick')];
      const sets = [event<string>('e').set('slow'), other.event<string>('e').set('quick')];
      await Promise.all([...writes, ...sets]);
    });
    const t = await backend.testApp({ workflows: [wf], serializer });
    const handle = await wf.start();
    slow.open();
    await handle.result();
    const values: string[] = [];
    for await (const value of stream<string>('s').read(handle.id)) values.push(value);
    expect(values).toEqual(['slow', 'quick']);
    expect(await event<string>('e').get(handle.id, { app: t.app })).toBe('quick');
  });

  it('debounce in the order of the calls', async () => {
    const wf = workflow('wf', async (n: number) => n);
    const t = await backend.testApp({ workflows: [wf] });
    const copies = [own, other, own, other];
    const calls = copies.map((copy, i) => copy.debouncer(wf).debounce('key', '1s', i));
    const [first] = await Promise.all(calls);
    await t.clock.advance('2s');
    expect(await first?.result()).toBe(3);
  });

  it('refuse a transaction of one inside a transaction of the other', async () => {
    const db = openSqlite('sqlite::memory:');
    onTestFinished(() => void db.close());
    const datasource = { ...checkDatasource('test', 'sqlite', {}), ...sqliteTransactions(db, db) };
    const inner = other.transaction(datasource, 'inner', async () => 1);
    const outer = transaction(datasource, 'outer', async () => inner());
    const wf = workflow('wf', async () => outer());
    await backend.testApp({ workflows: [wf] });
    for (const call of [outer, wf]) {
      const error = await failure(call());
      expect(error).toMatchObject({ code: 'UNSUPPORTED_CALL' });
      expect(error.message).toContain('inside another transaction');
    }
  });
});

describe('two copies of the package', () => {
  it('use one connection to SQLite one after the other', async () => {
    const { sqliteTransactions: another } = await anotherCopyOf(
      () => import('../../src/storage/caller/adapters/sqlite-transactions.js'),
    );
    const db = openSqlite('sqlite::memory:');
    onTestFinished(() => void db.close());
    db.exec('create table t (n int)');
    const first = gate();
    const one = sqliteTransactions(db, db).transact({}, async () => {
      await first.promise;
      throw new Error('rolled back');
    });
    const two = another(db, db).transact({}, async () => void db.exec('insert into t values (1)'));
    first.open();
    expect((await failure(one)).message).toBe('rolled back');
    await two;
    expect(db.prepare('select count(*) as n from t').get()).toEqual({ n: 1 });
  });

  it('refuse to open the same file with different libraries', async () => {
    const { openExclusively: another } = await anotherCopyOf(() => import('../../src/storage/sqlite/copies.js'));
    const driver = await loadDriver();
    const path = join(mkdtempSync(join(tmpdir(), 'holdfast-copies-')), 'app.sqlite');
    onTestFinished(() => rmSync(dirname(path), { recursive: true }));
    const db = openExclusively(driver, path);
    onTestFinished(() => db.close());
    const name = driver.name === 'node:sqlite' ? 'better-sqlite3' : 'node:sqlite';
    const open = () => expect.fail('the file was opened, and closing it would release the locks');
    expect(thrown(() => another({ name, open }, path))).toMatchObject({ code: 'SQLITE_COPIES' });
  });

  /** Defines the class again at each call, like a bundler that puts one class into two bundles. */
  const money = () =>
    class Money {
      constructor(readonly cents: number) {}
      get euros() {
        return this.cents / 100;
      }
    };

  it('store instances of a class that both have registered, and read them as the first class', async () => {
    const other = await anotherCopy();
    const [First, Second] = [money(), money()];
    registerClass(First, { name: 'Money' });
    other.registerClass(Second, { name: 'Money' });
    const { createCodecs } = await import('../../src/codec/codecs.js');
    const { native } = createCodecs({});
    for (const value of [new First(250), new Second(250)]) {
      const read = await native.decode(await native.encode(value, 'value'));
      expect(read).toBeInstanceOf(First);
      expect((read as InstanceType<typeof First>).euros).toBe(2.5);
    }
  });

  it('refuse a different class of the same name', async () => {
    const other = await anotherCopy();
    registerClass(
      class Point {
        readonly x = 1;
      },
      { name: 'Point' },
    );
    expect(() =>
      other.registerClass(
        class Point {
          readonly y = 1;
        },
        { name: 'Point' },
      ),
    ).toThrow(/restart the process/);
  });
});

describeBackends('a copy of another release', (backend) => {
  let other: Package;
  beforeAll(async () => {
    other = await anotherRelease();
  });

  it('cannot record in our workflows, and is therefore refused there before anything happens', async () => {
    let charged = 0;
    const charge = other.step('charge', async () => ++charged);
    const wf = workflow('wf', async (call: string) => {
      const calls = { step: charge, send: () => other.topic('t').send('x', 1), now: async () => other.now() };
      return calls[call as keyof typeof calls]();
    });
    await backend.testApp({ workflows: [wf] });
    for (const call of ['step', 'send', 'now']) {
      const error = await failure(wf(call));
      expect(error).toMatchObject({ code: 'UNSUPPORTED_CALL' });
      expect(error.message).toMatch(/Holdfast 0\.1\.0 called a function of Holdfast 9\.9\.9/);
    }
    expect(charged).toBe(0);
  });

  it('is a plain function inside a step of ours, and outside workflows', async () => {
    const double = other.step('double', async (n: number) => n * 2);
    const wf = workflow('wf', async () => run('ours', () => double(2)));
    await backend.testApp({ workflows: [wf] });
    expect([await wf(), await double(4)]).toEqual([4, 8]);
  });

  it('has workflows that our apps refuse', async () => {
    const wf = other.workflow('wf', async () => 1);
    const error = await failure(backend.testApp({ workflows: [wf] }));
    expect(error).toMatchObject({ code: 'INVALID_OPTION' });
    expect(error.message).toContain('Holdfast 9.9.9');
    await backend.testApp({ workflows: [workflow('wf', async () => 1)] });
    expect(await failure(wf())).toMatchObject({ code: 'NOT_LAUNCHED' });
    expect(await failure(Promise.resolve().then(() => other.topic('t').send('x', 1)))).toMatchObject({
      code: 'NOT_LAUNCHED',
    });
  });
});

it('the release equals the version of the package', async () => {
  const { release } = await import('../../src/model/release.js');
  const { default: manifest } = await import('../../package.json', { with: { type: 'json' } });
  expect(release).toBe(manifest.version);
});
