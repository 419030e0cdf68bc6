import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { SeededRandom } from '../../model/ids.js';
import type { Failure } from '../../storage/database.js';
import type { BatchKind } from './batch-kind.js';
import { Batcher } from './batcher.js';

/**
 * Random histories of one kind of batch: locks that come and go, refused rows, lost connections of which nobody knows
 * whether they were lost before or after the commit.
 */

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const keys = ['a', 'b', 'c', 'd'];
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await turn();
};

/** Rows are named by their key and their place, and by a "!" if the database is to refuse them. */
class WildTable implements BatchKind<string, string> {
  readonly name = 'things';
  readonly locked = new Set<string>();
  /** In the order of the commits, each once, as with idempotent writes. */
  readonly written = new Set<string>();
  readonly violations: string[] = [];
  private readonly underWay = new Set<string>();

  constructor(private readonly chance: (most: number) => number) {}

  async write(items: readonly string[]): Promise<string[]> {
    const concerned = new Set(items.map((item) => this.key(item)));
    for (const key of concerned) {
      if (this.underWay.has(key)) this.violations.push(`two statements of "${key}" at once`);
      this.underWay.add(key);
    }
    try {
      return await this.commit(items, concerned);
    } finally {
      for (const key of concerned) this.underWay.delete(key);
    }
  }

  key(item: string): string {
    return item.split('/')[0] as string;
  }

  weigh(): number {
    return 1;
  }

  private async commit(items: readonly string[], concerned: ReadonlySet<string>): Promise<string[]> {
    await turns(1 + this.chance(4));
    const isLocked = (): boolean => [...concerned].some((key) => this.locked.has(key));
    for (let waited = 0; waited < 6 && isLocked(); waited++) await turn();
    if (isLocked()) throw new Error('locked' satisfies Failure);
    if (items.some((item) => item.endsWith('!'))) throw new Error('refused' satisfies Failure);
    const isLost = this.chance(20) === 0;
    if (!isLost || this.chance(2) === 0) for (const item of items) this.written.add(item);
    if (isLost) throw new Error('lost' satisfies Failure);
    await turns(this.chance(3));
    return items.map(() => 'written');
  }
}

beforeEach(() => {
  // Pauses between attempts are over at once, and in the order in which they began.
  const { setTimeout: later } = globalThis;
  vi.stubGlobal('setTimeout', (work: () => void) => later(work, 0));
});
afterEach(() => {
  vi.unstubAllGlobals();
});

function wildBatcher(seed: string) {
  const random = new SeededRandom(seed);
  const chance = (most: number): number => Math.floor(random.number() * most);
  const table = new WildTable(chance);
  const batcher = new Batcher(table, { logger: silent, classify: (error) => (error as Error).message as Failure });
  const fates: Promise<string>[] = [];
  let count = 0;
  const step = async (): Promise<void> => {
    for (let i = chance(8); i > 0; i--) {
      const row = `${keys[chance(4)]}/${String(count++).padStart(4, '0')}${chance(33) === 0 ? '!' : ''}`;
      fates.push(
        batcher.submit(row).then(
          () => (table.written.has(row) ? 'written' : `"${row}" was confirmed and not written`),
          (error) => error.code ?? error.message,
        ),
      );
    }
    const key = keys[chance(4)] as string;
    if (chance(10) < 3) table.locked.add(key);
    else table.locked.delete(key);
    await turns(chance(8));
  };
  return { table, batcher, fates, step };
}

function expectOrder(table: WildTable): void {
  for (const key of keys) {
    const rows = [...table.written].filter((row) => table.key(row) === key);
    expect(rows).toEqual([...rows].sort());
  }
  expect(table.violations).toEqual([]);
}

const seeds = Array.from({ length: 60 }, (_, i) => `seed ${i}`);

describe('whatever holds up, refuses or loses its statements, a batcher', () => {
  it('writes the rows of one key in order and one statement at a time, and settles each', async () => {
    for (const seed of seeds) {
      const { table, batcher, fates, step } = wildBatcher(seed);
      for (let i = 0; i < 40; i++) await step();
      table.locked.clear();
      const ended = new Set(await Promise.all(fates));
      expect([...ended].filter((fate) => fate !== 'written' && fate !== 'STORAGE_REFUSED')).toEqual([]);
      await batcher.idle();
      expectOrder(table);
    }
  });

  it('settles each row when it is closed, while locks are held still', async () => {
    for (const seed of seeds) {
      const { table, batcher, fates, step } = wildBatcher(seed);
      for (let i = 0; i < 15; i++) await step();
      const idle = batcher.idle();
      batcher.close(new Error('closed'));
      const ended = new Set(await Promise.all(fates));
      expect([...ended].filter((fate) => !['written', 'STORAGE_REFUSED', 'closed'].includes(fate))).toEqual([]);
      await idle;
      expect(batcher.isIdle).toBe(true);
      expectOrder(table);
    }
  });

  it('writes however many rows have come together behind one that was locked', async () => {
    const table = new WildTable(() => 1);
    const batcher = new Batcher(table, { logger: silent, classify: (error) => (error as Error).message as Failure });
    table.locked.add('a');
    const all = Array.from({ length: 200_000 }, (_, i) => batcher.submit(`a/${String(i).padStart(6, '0')}`));
    await turns(50);
    table.locked.clear();
    await Promise.all(all);
    expect(table.written.size).toBe(200_000);
    expectOrder(table);
  });
});
