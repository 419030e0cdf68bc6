import { runInNewContext, runInThisContext } from 'node:vm';
import { expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { describeStorage, newStep, newWorkflow, type Store, start, writer } from './contract-support.js';

const withCode = (code: string): Error => Object.assign(new Error('made up'), { code });

describeStorage('the storage', (store) => {
  const itOn = (backend: Store['backend']) => (store.backend === backend ? it : (): void => {});

  itOn('postgres')('classifies a failed statement by its code, never by its message', () => {
    const kinds = {
      lost: ['EPIPE', 'ECONNRESET', 'ETIMEDOUT', 'ECONNREFUSED', 'ENOTFOUND', '08006', '08003', '08000'],
      retry: '40001 40P01 53300 53100 53200 53400 25006 XX000 58030 23503 26000 42P05'.split(' '),
      locked: ['55P03'],
      slow: ['57014'],
      unusable: ['42501', '42P01', '42703', '42883', '3F000', '42P10', '42804'],
      refused: ['23505', '22021', '22P02', '22P05', '54000', '54001'],
    };
    for (const [kind, codes] of Object.entries(kinds)) {
      for (const code of codes) expect(`${code} ${store.storage.classify(withCode(code))}`).toBe(`${code} ${kind}`);
    }
    for (const code of ['57P01', '57P02', '57P03', '57P05', '40003']) {
      expect(`${code} ${store.storage.classify(withCode(code))}`).toBe(`${code} lost`);
    }
    expect(store.storage.classify(new Error('Connection terminated unexpectedly'))).toBe('lost');
    expect(store.storage.classify(new Error('duplicate key value 23505'))).toBe('lost');
    expect(store.storage.classify('not even an error')).toBe('lost');
  });

  itOn('sqlite')('classifies a failed statement by its result code', () => {
    const kinds = {
      retry: ['SQLITE_BUSY', 'SQLITE_BUSY_SNAPSHOT', 'SQLITE_LOCKED', 'SQLITE_FULL', 'SQLITE_CANTOPEN'],
      unusable: ['SQLITE_ERROR'],
      lost: ['SQLITE_IOERR', 'SQLITE_IOERR_WRITE', 'SQLITE_IOERR_FSYNC'],
      refused: ['SQLITE_CONSTRAINT_FOREIGNKEY', 'SQLITE_CONSTRAINT_NOTNULL', 'SQLITE_TOOBIG', 'SQLITE_MISMATCH'],
    };
    for (const [kind, codes] of Object.entries(kinds)) {
      for (const code of codes) {
        expect(`${code} ${store.storage.classify(withCode(code))}`).toBe(`${code} ${kind}`);
      }
    }
    for (const mistake of ["new TypeError('cannot bind')", "new RangeError('Invalid string length')"]) {
      expect(store.storage.classify(runInThisContext(mistake))).toBe('refused');
      // Under jest, errors of node:sqlite look like this. A refused row must not be retried forever there.
      expect(store.storage.classify(runInNewContext(mistake))).toBe('refused');
    }
  });

  it('writes all rows of a batch or none, and classifies an invalid row as refused', async () => {
    await start(store, 'a');
    const noName = null as unknown as string;
    const rows = [newStep('a', 0), newStep('a', 1, { name: noName }), newStep('a', 2)];
    const error = await store.storage.steps.recordMany('app', rows).catch((thrown: unknown) => thrown);
    expect(store.storage.classify(error)).toBe('refused');
    expect(await store.storage.steps.history(['a'])).toEqual([]);
    // The connection that saw the refusal still works.
    expect(await store.storage.steps.recordMany('app', [newStep('a', 0)])).toBe(1);
  });

  itOn('sqlite')('waits for another writer without blocking the event loop', async () => {
    await start(store, 'a');
    const other = openSqlite(store.url);
    onTestFinished(() => void other.close());
    other.exec('begin immediate');
    let done = false;
    const writes = Promise.all([
      store.storage.steps.recordMany('app', [newStep('a', 0)]),
      store.storage.workflows.cancel({ workflowIds: ['nowhere'], reason: null, now: 1 }),
    ]).finally(() => {
      done = true;
    });
    let longestMs = 0;
    for (let turn = 0, last = performance.now(); turn < 200; turn++) {
      await new Promise((resolve) => setTimeout(resolve));
      longestMs = Math.max(longestMs, performance.now() - last);
      last = performance.now();
    }
    expect(done).toBe(false);
    expect(longestMs).toBeLessThan(1000);
    other.exec('commit');
    expect((await writes)[0]).toBe(1);
  });

  it('sees what another process commits', async () => {
    const other = await store.another();
    const before = store.storage.changeCounter();
    expect(store.storage.changeCounter()).toBe(before);
    await other.workflows.insertMany(writer, [newWorkflow('a')]);
    expect(await store.storage.workflows.get(['a'])).toHaveLength(1);
    if (store.backend === 'postgres') expect(before).toBeNull();
    else expect(store.storage.changeCounter()).not.toBe(before);
  });

  it('reads the clock of the database', async () => {
    const before = Date.now();
    const now = await store.storage.now();
    // One machine, one clock; Postgres counts finer than milliseconds.
    expect(now).toBeGreaterThan(before - 5);
    expect(now).toBeLessThan(Date.now() + 5);
  });
});
