import { describe, expect, it } from 'vitest';
import type { Failure } from '../../storage/contract/failure-kind.js';
import type { BatchKind } from './batch-kind.js';
import { Batcher } from './batcher.js';

/** A fake database. The row "long/1" takes long, and statements with a row of the key "slow" are cancelled. */
class BusyTable implements BatchKind<string, string> {
  readonly name = 'things';
  readonly written: string[] = [];
  cancels = true;
  private finish = (): void => {};
  private readonly finished = new Promise<void>((resolve) => {
    this.finish = resolve;
  });

  async write(items: readonly string[]): Promise<string[]> {
    await new Promise((resolve) => setImmediate(resolve));
    if (this.cancels && items.some((item) => this.key(item) === 'slow')) throw new Error('slow' satisfies Failure);
    if (items.some((item) => this.takesLong(item))) await this.finished;
    this.written.push(...items);
    return items.map((item) => `${item}!`);
  }

  key(item: string): string {
    return item.split('/')[0] as string;
  }

  weigh(): number {
    return 1;
  }

  takesLong(item: string): boolean {
    return item === 'long/1';
  }

  finishLong(): void {
    this.finish();
  }
}

const warnings: string[] = [];
const logger = { debug() {}, info() {}, error() {}, warn: (line: string) => void warnings.push(line) };

function batcherOn(table: BusyTable): Batcher<string, string> {
  return new Batcher(table, { logger, classify: (error) => (error as Error).message as Failure });
}

describe('a row that takes the database long', () => {
  it('is written apart from the other rows, which do not wait for it', async () => {
    const table = new BusyTable();
    const batcher = batcherOn(table);
    const [a, long, b] = ['a/1', 'long/1', 'b/1'].map((row) => batcher.submit(row));
    expect(await Promise.all([a, b])).toEqual(['a/1!', 'b/1!']);
    expect(await batcher.submit('late/1')).toBe('late/1!');
    expect(table.written).not.toContain('long/1');
    table.finishLong();
    expect(await long).toBe('long/1!');
  });

  it('keeps its place among the rows of its key', async () => {
    const table = new BusyTable();
    const batcher = batcherOn(table);
    const rows = ['long/0', 'long/1', 'other/1', 'long/2'];
    const together = rows.map((row) => batcher.submit(row));
    await together[2];
    const later = batcher.submit('long/3');
    await batcher.submit('other/2');
    table.finishLong();
    await Promise.all([...together, later]);
    expect(table.written.filter((row) => table.key(row) === 'long')).toEqual(['long/0', 'long/1', 'long/2', 'long/3']);
  });

  it('is retried apart from the other rows after the server has cancelled its statement', async () => {
    const table = new BusyTable();
    const batcher = batcherOn(table);
    const rows = Array.from({ length: 100 }, (_, i) => (i === 50 ? 'slow/1' : `r${i}/1`));
    const all = rows.map((row) => batcher.submit(row));
    await Promise.all(all.filter((_, i) => i !== 50));
    expect(await batcher.submit('late/1')).toBe('late/1!');
    while (warnings.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(warnings[0]).toBe(
      'Writing things of "slow", which takes the database too long, failed and is tried again: Error: slow',
    );
    table.cancels = false;
    expect(await all[50]).toBe('slow/1!');
  });
});
