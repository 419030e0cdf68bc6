import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import { arrayLiteral, columnLiterals } from './array-literal.js';

describe('a column as a Postgres array literal', () => {
  it('escapes quotes and backslashes, and nothing else', () => {
    expect(columnLiterals([{ a: 'x"y\\z' }, { a: null }, { a: 5 }, { a: "it's {,}" }], ['a'])).toEqual([
      '{"x\\"y\\\\z",NULL,5,"it\'s {,}"}',
    ]);
    expect(arrayLiteral([])).toBe('{}');
  });

  it('leaves out the elements of a column without values, except of the first column', () => {
    const rows = [
      { id: null, error: null, at: null },
      { id: null, error: undefined, at: 7 },
    ];
    expect(columnLiterals(rows, ['id', 'error', 'at'])).toEqual(['{NULL,NULL}', '{}', '{NULL,7}']);
  });

  it('escapes a long text like a short text', () => {
    // Lengths around the length of a piece. The text has surrogate pairs and escaped pairs that a cut could split.
    for (const length of [65_535, 65_536, 65_537, 131_072, 200_001]) {
      const text = '\\"ü🦄'.repeat(length / 4).slice(0, length);
      const short = text.replace(/[\\"]/g, '\\$&');
      expect(columnLiterals([{ a: text }], ['a'])).toEqual([`{"${short}"}`]);
    }
  });

  it('needs only a few times the memory of the text, even if every character is escaped', async () => {
    const built = new URL('../../../dist/storage/postgres/array-literal.js', import.meta.url);
    const code = `import(${JSON.stringify(built.href)}).then(({ columnLiterals }) => {
      const [{ length }] = columnLiterals([{ a: '"'.repeat(10_000_000) }], ['a']);
      require('node:worker_threads').parentPort.postMessage(length);
    })`;
    const worker = new Worker(code, { eval: true, resourceLimits: { maxOldGenerationSizeMb: 200 } });
    onTestFinished(async () => void (await worker.terminate()));
    expect(await once(worker, 'message')).toEqual([20_000_004]);
  });
});
