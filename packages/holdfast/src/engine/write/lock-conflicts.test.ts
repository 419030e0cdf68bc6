import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Failure } from '../../storage/contract/failure-kind.js';
import type { BatchKind } from './batch-kind.js';
import { Batcher } from './batcher.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** A table whose rows other sessions can lock. The name of a row is its key, and a number for its place. */
class LockedTable implements BatchKind<string, string> {
  readonly name = 'things';
  readonly written: string[] = [];
  readonly locked = new Set<string>();
  refuses: string | undefined;
  statements = 0;
  patientTimeouts = 0;
  impatientTimeouts = 0;

  async write(items: readonly string[], impatient?: boolean): Promise<string[]> {
    this.statements++;
    await new Promise((resolve) => setImmediate(resolve));
    if (items.some((item) => this.locked.has(this.key(item)))) {
      if (impatient) this.impatientTimeouts++;
      else this.patientTimeouts++;
      throw new Error('locked' satisfies Failure);
    }
    if (this.refuses && items.includes(this.refuses)) throw new Error('refused' satisfies Failure);
    this.written.push(...items);
    return items.map((item) => `${item}!`);
  }

  key(item: string): string {
    return item.split('/')[0] as string;
  }

  weigh(): number {
    return 1;
  }
}

function batcherOn(table: LockedTable): Batcher<string, string> {
  return new Batcher(table, { logger: silent, classify: (error) => (error as Error).message as Failure });
}

describe('a row that another session has locked', () => {
  it('does not delay the rest of its batch, and is written when the lock is gone', async () => {
    const table = new LockedTable();
    table.locked.add('r500');
    const batcher = batcherOn(table);
    const rows = Array.from({ length: 1000 }, (_, i) => `r${i}`);
    const all = rows.map((row) => batcher.submit(row));
    const others = all.filter((_, i) => i !== 500);
    expect(await Promise.all(others)).toEqual(rows.filter((_, i) => i !== 500).map((row) => `${row}!`));
    expect(table.statements).toBeLessThan(80);
    expect(batcher.isIdle).toBe(false);
    // Later rows do not wait for it either.
    expect(await batcher.submit('late')).toBe('late!');
    table.locked.clear();
    expect(await all[500]).toBe('r500!');
    await batcher.idle();
    expect(batcher.isIdle).toBe(true);
    expect(table.written).toHaveLength(1001);
  });

  it('is not overtaken by other rows of its key, in its batch or later', async () => {
    const table = new LockedTable();
    table.locked.add('a');
    const batcher = batcherOn(table);
    const first = ['a/1', 'b/1', 'a/2', 'b/2'].map((row) => batcher.submit(row));
    await Promise.all([first[1], first[3]]);
    const later = batcher.submit('a/3');
    await batcher.submit('c/1');
    table.locked.clear();
    await Promise.all([...first, later]);
    expect(table.written.filter((row) => row.startsWith('a'))).toEqual(['a/1', 'a/2', 'a/3']);
  });

  it('is written as soon as its own lock is gone, even if other rows are still locked', async () => {
    const table = new LockedTable();
    for (const key of ['a', 'b']) table.locked.add(key);
    const batcher = batcherOn(table);
    const [a, b] = [batcher.submit('a'), batcher.submit('b')];
    await batcher.submit('c');
    table.locked.delete('b');
    expect(await b).toBe('b!');
    table.locked.delete('a');
    expect(await a).toBe('a!');
  });

  it('fails like any other row if the database refuses it after the lock is gone', async () => {
    const table = new LockedTable();
    table.locked.add('a');
    const batcher = batcherOn(table);
    const a = batcher.submit('a').catch((error) => error.code);
    await batcher.submit('b');
    table.refuses = 'a';
    table.locked.clear();
    expect(await a).toBe('STORAGE_REFUSED');
    await batcher.idle();
  });

  it('rejects when the batcher is closed', async () => {
    const table = new LockedTable();
    table.locked.add('a');
    const batcher = batcherOn(table);
    const a = batcher.submit('a').catch((error) => error.message);
    await batcher.submit('b');
    batcher.close(new Error('closed'));
    expect(await a).toBe('closed');
  });

  it('rejects when the batcher is closed during its first attempt, and the batcher becomes idle', async () => {
    const table = new LockedTable();
    table.locked.add('a');
    const batcher = batcherOn(table);
    const both = ['a', 'b'].map((row) => batcher.submit(row).catch((error) => error.message));
    while (table.statements === 0) await new Promise((resolve) => setImmediate(resolve));
    const idle = batcher.idle();
    batcher.close(new Error('closed'));
    expect(await Promise.all(both)).toEqual(['closed', 'closed']);
    await idle;
    expect(table.statements).toBe(1);
  });

  it('is retried with growing pauses, and does not flood the log', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const table = new LockedTable();
    table.locked.add('a');
    const lines: string[] = [];
    const logger = { ...silent, warn: (line: string) => void lines.push(line) };
    const batcher = new Batcher(table, { logger, classify: (error) => (error as Error).message as Failure });
    const a = batcher.submit('a');
    const began = performance.now();
    for (let pauses = 0; pauses < 20; pauses++) {
      while (vi.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve));
      await vi.advanceTimersToNextTimerAsync();
    }
    expect(performance.now() - began).toBeGreaterThan(7_000);
    expect(lines.length).toBeLessThanOrEqual(16);
    expect(lines[0]).toContain('Writing things of "a", which another session has locked, failed and is tried again');
    table.locked.clear();
    vi.useRealTimers();
    expect(await a).toBe('a!');
  });

  it('costs few statements that wait for locks, even if many rows are locked', async () => {
    const table = new LockedTable();
    for (let i = 0; i < 10; i++) table.locked.add(`r${i * 100}`);
    const batcher = batcherOn(table);
    const all = Array.from({ length: 1000 }, (_, i) => batcher.submit(`r${i}`));
    await Promise.all(all.filter((_, i) => i % 100 !== 0));
    // One statement has the usual patience with locks. All others wait only briefly.
    expect(table.patientTimeouts).toBe(1);
    expect(table.impatientTimeouts).toBeLessThan(60);
    batcher.close();
  });
});
