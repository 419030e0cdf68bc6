import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { SeededRandom } from '../../model/ids.js';
import type { Failure } from '../../storage/contract/failure-kind.js';
import type { BatchKind } from './batch-kind.js';
import { Batcher } from './batcher.js';

/**
 * Random sequences of events for one kind of write: locks that appear and disappear, refused rows, and connections
 * that are lost before or after a commit.
 */

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const keys = ['a', 'b', 'c', 'd'];
const eventLoopTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const eventLoopTurns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await eventLoopTurn();
};

/** The name of a row is its key and its place, with a "!" at the end if the database must refuse the row. */
class UnreliableTable implements BatchKind<string, string> {
  readonly name = 'things';
  readonly locked = new Set<string>();
  /** Rows in the order of their commits. Repeated writes are idempotent, so each row is here once. */
  readonly written = new Set<string>();
  readonly violations: string[] = [];
  private readonly writing = new Set<string>();

  constructor(private readonly randomInt: (max: number) => number) {}

  async write(items: readonly string[]): Promise<string[]> {
    const statementKeys = new Set(items.map((item) => this.key(item)));
    for (const key of statementKeys) {
      if (this.writing.has(key)) this.violations.push(`two statements of "${key}" at once`);
      this.writing.add(key);
    }
    try {
      return await this.commit(items, statementKeys);
    } finally {
      for (const key of statementKeys) this.writing.delete(key);
    }
  }

  key(item: string): string {
    return item.split('/')[0] as string;
  }

  weigh(): number {
    return 1;
  }

  private async commit(items: readonly string[], statementKeys: ReadonlySet<string>): Promise<string[]> {
    await eventLoopTurns(1 + this.randomInt(4));
    const isLocked = (): boolean => [...statementKeys].some((key) => this.locked.has(key));
    for (let waited = 0; waited < 6 && isLocked(); waited++) await eventLoopTurn();
    if (isLocked()) throw new Error('locked' satisfies Failure);
    if (items.some((item) => item.endsWith('!'))) throw new Error('refused' satisfies Failure);
    const isLost = this.randomInt(20) === 0;
    if (!isLost || this.randomInt(2) === 0) for (const item of items) this.written.add(item);
    if (isLost) throw new Error('lost' satisfies Failure);
    await eventLoopTurns(this.randomInt(3));
    return items.map(() => 'written');
  }
}

beforeEach(() => {
  // Pauses between attempts end at once, in the order in which they began.
  const { setTimeout: realSetTimeout } = globalThis;
  vi.stubGlobal('setTimeout', (work: () => void) => realSetTimeout(work, 0));
});
afterEach(() => {
  vi.unstubAllGlobals();
});

function unreliableBatcher(seed: string) {
  const random = new SeededRandom(seed);
  const randomInt = (max: number): number => Math.floor(random.number() * max);
  const table = new UnreliableTable(randomInt);
  const batcher = new Batcher(table, { logger: silent, classify: (error) => (error as Error).message as Failure });
  const outcomes: Promise<string>[] = [];
  let count = 0;
  const step = async (): Promise<void> => {
    for (let i = randomInt(8); i > 0; i--) {
      const row = `${keys[randomInt(4)]}/${String(count++).padStart(4, '0')}${randomInt(33) === 0 ? '!' : ''}`;
      outcomes.push(
        batcher.submit(row).then(
          () => (table.written.has(row) ? 'written' : `"${row}" was confirmed and not written`),
          (error) => error.code ?? error.message,
        ),
      );
    }
    const key = keys[randomInt(4)] as string;
    if (randomInt(10) < 3) table.locked.add(key);
    else table.locked.delete(key);
    await eventLoopTurns(randomInt(8));
  };
  return { table, batcher, outcomes, step };
}

function expectOrder(table: UnreliableTable): void {
  for (const key of keys) {
    const rows = [...table.written].filter((row) => table.key(row) === key);
    expect(rows).toEqual([...rows].sort());
  }
  expect(table.violations).toEqual([]);
}

const seeds = Array.from({ length: 60 }, (_, i) => `seed ${i}`);

describe('a batcher with random locks, refusals and lost connections', () => {
  it('writes the rows of one key in order and one statement at a time, and settles each', async () => {
    for (const seed of seeds) {
      const { table, batcher, outcomes, step } = unreliableBatcher(seed);
      for (let i = 0; i < 40; i++) await step();
      table.locked.clear();
      const settled = new Set(await Promise.all(outcomes));
      expect([...settled].filter((outcome) => outcome !== 'written' && outcome !== 'STORAGE_REFUSED')).toEqual([]);
      await batcher.idle();
      expectOrder(table);
    }
  });

  it('settles each row when it is closed while rows are locked', async () => {
    for (const seed of seeds) {
      const { table, batcher, outcomes, step } = unreliableBatcher(seed);
      for (let i = 0; i < 15; i++) await step();
      const idle = batcher.idle();
      batcher.close(new Error('closed'));
      const settled = new Set(await Promise.all(outcomes));
      expect([...settled].filter((each) => !['written', 'STORAGE_REFUSED', 'closed'].includes(each))).toEqual([]);
      await idle;
      expect(batcher.isIdle).toBe(true);
      expectOrder(table);
    }
  });

  it('writes 200,000 rows that waited behind a locked row', async () => {
    const table = new UnreliableTable(() => 1);
    const batcher = new Batcher(table, { logger: silent, classify: (error) => (error as Error).message as Failure });
    table.locked.add('a');
    const all = Array.from({ length: 200_000 }, (_, i) => batcher.submit(`a/${String(i).padStart(6, '0')}`));
    await eventLoopTurns(50);
    table.locked.clear();
    await Promise.all(all);
    expect(table.written.size).toBe(200_000);
    expectOrder(table);
  });
});
