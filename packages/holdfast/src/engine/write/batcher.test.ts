import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Failure } from '../../storage/contract/failure-kind.js';
import type { BatchKind } from './batch-kind.js';
import { Batcher } from './batcher.js';

/** A fake database for one kind of write. The test decides when it answers and how it fails. */
class FakeTable implements BatchKind<string, string> {
  readonly name = 'things';
  readonly batches: string[][] = [];
  readonly failures: Failure[] = [];
  private readonly answers: (() => void)[] = [];
  private isHolding = false;

  async write(items: readonly string[]): Promise<string[]> {
    this.batches.push([...items]);
    if (this.isHolding) await new Promise<void>((resolve) => this.answers.push(resolve));
    const failure = this.failures.shift() ?? (items.includes('bad') ? 'refused' : undefined);
    if (failure) throw new Error(failure);
    return items.map((item) => `${item}!`);
  }

  key(item: string): string {
    return item;
  }

  weigh(item: string): number {
    return Number(/^heavy (\d+)/.exec(item)?.[1] ?? 1);
  }

  /** From now on, each statement waits for a call of `answer`. */
  hold(): void {
    this.isHolding = true;
  }

  answer(): void {
    this.answers.shift()?.();
  }

  get unanswered(): number {
    return this.answers.length;
  }
}

const warnings: string[] = [];
const logger = { debug() {}, info() {}, error() {}, warn: (line: string) => void warnings.push(line) };

function batcherOn(table: FakeTable): Batcher<string, string> {
  return new Batcher(table, { logger, classify: (error) => (error as Error).message as Failure });
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

afterEach(() => {
  warnings.length = 0;
  vi.useRealTimers();
});

describe('batching', () => {
  it('sends all items of one event loop turn as one batch, and settles each', async () => {
    const table = new FakeTable();
    const batcher = batcherOn(table);
    const results = await Promise.all(['a', 'b', 'c'].map((item) => batcher.submit(item)));
    expect(results).toEqual(['a!', 'b!', 'c!']);
    expect(table.batches).toEqual([['a', 'b', 'c']]);
  });

  it('collects items while a batch is being written, and writes one batch at a time', async () => {
    const table = new FakeTable();
    const batcher = batcherOn(table);
    table.hold();
    const first = batcher.submit('a');
    await until(() => table.unanswered === 1);
    const others = Promise.all([batcher.submit('b'), batcher.submit('c')]);
    await new Promise((resolve) => setImmediate(resolve));
    const late = batcher.submit('d');
    expect(table.batches).toEqual([['a']]);
    table.answer();
    expect(await first).toBe('a!');
    await until(() => table.unanswered === 1);
    table.answer();
    expect(await others).toEqual(['b!', 'c!']);
    expect(await late).toBe('d!');
    expect(table.batches).toEqual([['a'], ['b', 'c', 'd']]);
  });

  it('settles no item before the statement of its batch has ended', async () => {
    const table = new FakeTable();
    table.hold();
    let settled = false;
    const item = batcherOn(table)
      .submit('a')
      .then(() => {
        settled = true;
      });
    await until(() => table.unanswered === 1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(settled).toBe(false);
    table.answer();
    await item;
  });

  it('sends at most a thousand rows in one statement', async () => {
    const table = new FakeTable();
    const batcher = batcherOn(table);
    const results = await Promise.all(Array.from({ length: 2500 }, (_, i) => batcher.submit(`${i}`)));
    expect(results[2499]).toBe('2499!');
    expect(table.batches.map((batch) => batch.length)).toEqual([1000, 1000, 500]);
  });

  it('sends at most four million characters in one statement, except for a single item of any size', async () => {
    const table = new FakeTable();
    const batcher = batcherOn(table);
    const items = ['heavy 1500000 a', 'heavy 1500000 b', 'heavy 1500000 c', 'heavy 9000000 d', 'e'];
    await Promise.all(items.map((item) => batcher.submit(item)));
    expect(table.batches).toEqual([items.slice(0, 2), items.slice(2, 3), items.slice(3, 4), items.slice(4)]);
  });
});

describe('failures', () => {
  it('rejects only the refused rows of a batch', async () => {
    const table = new FakeTable();
    const batcher = batcherOn(table);
    const items = ['a', 'b', 'bad', 'c', 'd', 'bad', 'e'];
    const ended = await Promise.allSettled(items.map((item) => batcher.submit(item)));
    expect(ended.map((each) => (each.status === 'fulfilled' ? each.value : each.reason.code))).toEqual([
      'a!',
      'b!',
      'STORAGE_REFUSED',
      'c!',
      'd!',
      'STORAGE_REFUSED',
      'e!',
    ]);
    expect(await batcher.submit('afterwards')).toBe('afterwards!');
  });

  it('writes no row twice while it finds the refused row', async () => {
    const table = new FakeTable();
    const batcher = batcherOn(table);
    const items = Array.from({ length: 64 }, (_, i) => (i === 17 ? 'bad' : `${i}`));
    await Promise.allSettled(items.map((item) => batcher.submit(item)));
    const accepted = table.batches.filter((batch) => !batch.includes('bad')).flat();
    expect(accepted.sort()).toEqual(items.filter((item) => item !== 'bad').sort());
    // The batch is halved again and again, which takes far fewer statements than rows.
    expect(table.batches.length).toBeLessThan(16);
  });

  it.each(['lost', 'retry'] as const)('sends the same rows again after a failure "%s"', async (failure) => {
    const table = new FakeTable();
    table.failures.push(failure, failure);
    const batcher = batcherOn(table);
    expect(await Promise.all([batcher.submit('a'), batcher.submit('b')])).toEqual(['a!', 'b!']);
    expect(table.batches).toEqual(Array(3).fill(['a', 'b']));
  });

  it('pauses longer after each failure, up to five seconds, and warns at most once a second', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] });
    const table = new FakeTable();
    table.failures.push(...Array(12).fill('retry'));
    const item = batcherOn(table).submit('a');
    const sentAt: number[] = [];
    for (let attempt = 0; attempt < 12; attempt++) {
      await until(() => vi.getTimerCount() === 1);
      sentAt.push(performance.now());
      await vi.advanceTimersToNextTimerAsync();
    }
    expect(await item).toBe('a!');
    const pauses = sentAt.slice(1).map((at, i) => at - (sentAt[i] ?? 0));
    expect(pauses[0]).toBeLessThanOrEqual(20);
    expect(Math.min(...pauses.slice(-2))).toBeGreaterThanOrEqual(2500);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(5000);
    expect(warnings.length).toBeGreaterThan(1);
    expect(warnings.length).toBeLessThan(12);
    expect(warnings[0]).toContain('Writing things failed and is tried again');
  });

  it('sends later items only after the retry of earlier items', async () => {
    const table = new FakeTable();
    table.failures.push('lost');
    const batcher = batcherOn(table);
    const first = batcher.submit('a');
    await until(() => warnings.length === 1);
    const second = batcher.submit('b');
    expect(await Promise.all([first, second])).toEqual(['a!', 'b!']);
    expect(table.batches).toEqual([['a'], ['a'], ['b']]);
  });
});

describe('idle and close', () => {
  it('is idle when no item waits or is being written', async () => {
    const table = new FakeTable();
    const batcher = batcherOn(table);
    await batcher.idle();
    expect(batcher.isIdle).toBe(true);
    const items = Promise.all([batcher.submit('a'), batcher.submit('bad').catch(() => 'refused')]);
    expect(batcher.isIdle).toBe(false);
    await batcher.idle();
    expect(batcher.isIdle).toBe(true);
    expect(await items).toEqual(['a!', 'refused']);
  });

  it('stops retrying after close: unconfirmed items never settle', async () => {
    const table = new FakeTable();
    table.failures.push('lost');
    const batcher = batcherOn(table);
    let settled = false;
    const note = (): void => {
      settled = true;
    };
    batcher.submit('a').then(note, note);
    await until(() => warnings.length === 1);
    batcher.submit('b').then(note, note);
    batcher.close();
    await batcher.idle();
    await new Promise((resolve) => setImmediate(resolve));
    expect(settled).toBe(false);
    expect(table.batches).toEqual([['a']]);
  });
});
