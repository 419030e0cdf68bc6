import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkStructure } from './check-structure.mjs';

let root;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-structure-'));
});

afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Writes the files and checks them. Paths are below packages/holdfast/src unless they name a folder of the root. */
function violationsOf(files) {
  for (const [path, source] of Object.entries(files)) {
    const place = /^(packages|bench|examples|scripts|test-support)\//.test(path)
      ? path
      : `packages/holdfast/src/${path}`;
    mkdirSync(dirname(join(root, place)), { recursive: true });
    writeFileSync(join(root, place), source);
  }
  return checkStructure(root).violations.map(({ path, line, what, advice }) => {
    expect(advice).toMatch(/\.$/);
    return `${path.replace('packages/holdfast/src/', '')}:${line} ${what}`;
  });
}

const lines = (count) => 'step();\n'.repeat(count);

describe('layers', () => {
  it('accepts imports from lower layers, and an index.ts that exports everything', () => {
    const found = violationsOf({
      'model/ids.ts': 'export const id = 1;',
      'codec/native.ts': "import { id } from '../model/ids.js';\nexport const code = id;",
      'app/launch.ts': "import { code } from '../codec/native.js';\nexport const launch = code;",
      'testing/index.ts': "export * from '../app/launch.js';",
      'index.ts': "export * from './app/launch.js';\nexport * from './testing/index.js';",
    });
    expect(found).toEqual([]);
  });

  it.each([
    ['import', "import { a } from '../engine/a.js';"],
    ['import of a type', "import type { A } from '../engine/a.js';"],
    ['export', "export * from '../engine/a.js';"],
    ['dynamic import', "const a = await import('../engine/a.js');"],
    ['type query', "type A = import('../engine/a.js').A;"],
  ])('reports an upward %s', (_, source) => {
    const found = violationsOf({ 'storage/b.ts': `\n${source}`, 'engine/a.ts': 'export type A = 1;' });
    expect(found).toEqual(['storage/b.ts:2 storage/ imports engine/, which is above it']);
  });

  it('allows codec to import model, but not model to import codec', () => {
    const found = violationsOf({ 'codec/a.ts': "import '../model/b.js';", 'model/c.ts': "import '../codec/a.js';" });
    expect(found).toEqual(['model/c.ts:1 model/ imports codec/, which is above it']);
  });

  it('lets code above storage import its contract and its entrances, and nothing else of it', () => {
    const found = violationsOf({
      'engine/a.ts': "import '../storage/contract/steps.js';\nimport '../storage/open.js';",
      'queues/b.ts': "\nimport '../storage/sql/steps.js';",
      'storage/c.ts': "import './sql/steps.js';",
      'storage/sql/steps.ts': '',
      'storage/contract/steps.ts': '',
      'storage/open.ts': '',
    });
    expect(found).toEqual(["queues/b.ts:2 imports '../storage/sql/steps.js', the inside of storage/"]);
  });

  it('reports a feature that imports another feature', () => {
    expect(violationsOf({ 'queues/a.ts': "import '../schedules/b.js';" })).toEqual([
      'queues/a.ts:1 queues/ imports schedules/, its neighbour',
    ]);
  });

  it('reports a folder that is not a layer, and a file in src itself', () => {
    expect(violationsOf({ 'utils/a.ts': '', 'helpers.ts': '' })).toEqual([
      'helpers.ts:1 file outside the layers',
      'utils/a.ts:1 utils/ is not a layer',
    ]);
  });

  it('reports imports of index.ts, of the package by name, and of files outside src', () => {
    const source = "import '../index.js';\nimport 'holdfast/testing';\nimport '../../../../test-support/a.js';";
    expect(violationsOf({ 'engine/a.ts': source })).toEqual([
      "engine/a.ts:1 imports '../index.js', the front door",
      "engine/a.ts:2 imports its own package as 'holdfast/testing'",
      "engine/a.ts:3 imports '../../../../test-support/a.js' from outside src",
    ]);
  });

  it('allows a test beside the code to import anything', () => {
    expect(violationsOf({ 'model/a.test.ts': "import '../app/launch.js';\nimport 'pg';" })).toEqual([]);
  });
});

describe('drivers and SQL outside storage', () => {
  it.each(['pg', 'pg-pool', 'better-sqlite3', 'node:sqlite'])('reports the driver %s outside storage', (driver) => {
    const source = `import '${driver}';`;
    expect(violationsOf({ 'storage/postgres/a.ts': source, 'engine/a.ts': source })).toEqual([
      `engine/a.ts:1 imports the database driver ${driver}`,
    ]);
  });

  it('reports a driver that is loaded at run time', () => {
    const source = "const a = await import('pg');\nrequire('pg');\nrequire.resolve('better-sqlite3');";
    expect(violationsOf({ 'app/a.ts': source })).toHaveLength(3);
  });

  it.each([
    "'select status from workflow_status'",
    '`\n  SELECT *\n  FROM $' + '{table}`',
    "'with due as (select 1 from queues) values (1)'",
    "'insert into notifications values ($1)'",
    "'insert or ignore into notifications values ($1)'",
    '`update $' + '{table} set status = $1`',
    "'delete from executors'",
    "'create table executors (id text)'",
  ])('reports SQL outside storage: %s', (literal) => {
    const source = `\nexport const text = ${literal};`;
    expect(violationsOf({ 'storage/sql/a.ts': source, 'queues/a.ts': source })).toEqual([
      'queues/a.ts:2 SQL outside storage/',
    ]);
  });

  it('does not report prose or comments as SQL', () => {
    const source =
      "// select a from b\nexport const text = 'Workflows that were deleted from here, or an update to set it';";
    expect(violationsOf({ 'queues/a.ts': source })).toEqual([]);
  });
});

describe('cycles', () => {
  it('reports a cycle once, with the files on its path', () => {
    const found = violationsOf({
      'engine/a.ts': "\nimport type { B } from './b.js';",
      'engine/b.ts': "export * from './c.js';",
      'engine/c.ts': "import './a.js';",
      'engine/d.ts': "import './a.js';",
    });
    const at = (name) => `packages/holdfast/src/engine/${name}.ts`;
    expect(found).toEqual([`engine/a.ts:2 import cycle: ${[at('a'), at('b'), at('c'), at('a')].join(' -> ')}`]);
  });

  it('reports two separate cycles, and a file that imports itself', () => {
    const found = violationsOf({
      'scripts/a.mjs': "import './b.mjs';",
      'scripts/b.mjs': "import './a.mjs';\nimport './c.mjs';",
      'scripts/c.mjs': "import './c.mjs';",
    });
    expect(found).toEqual([
      'scripts/a.mjs:1 import cycle: scripts/a.mjs -> scripts/b.mjs -> scripts/a.mjs',
      'scripts/c.mjs:1 import cycle: scripts/c.mjs -> scripts/c.mjs',
    ]);
  });
});

describe('sizes', () => {
  it.each([
    'packages/holdfast/test/a.test.ts',
    'bench/a.mts',
    'examples/x/a.tsx',
    'scripts/a.mjs',
    'test-support/a.ts',
  ])('reports a file over 400 lines in %s', (path) => {
    expect(violationsOf({ [path]: lines(401) })).toEqual([`${path}:401 file of 401 lines (at most 400)`]);
    expect(violationsOf({ [path]: lines(400) })).toEqual([]);
  });

  it.each([
    ['a', `function a() {\n${lines(59)}}`],
    ['b', `const b = async () => {\n${lines(59)}};`],
    ['c', `class C {\nc() {\n${lines(59)}}\n}`],
    ['then', `export const o = { then: function () {\n${lines(59)}} };`],
    ["it 'works'", `it('works', () => {\n${lines(59)}});`],
    ["it 'each %s'", `it.each([1])('each %s', () => {\n${lines(59)}});`],
    ['anonymous function', `call(() => {\n${lines(59)}});`],
  ])('reports a function over 60 lines: %s', (name, source) => {
    const [found, ...rest] = violationsOf({ 'engine/a.ts': source });
    expect(found).toMatch(/^engine\/a\.ts:[12] /);
    expect(found.slice('engine/a.ts:1 '.length)).toBe(`${name} has 61 lines (at most 60)`);
    expect(rest).toEqual([]);
  });

  it('accepts a function of 60 lines', () => {
    expect(violationsOf({ 'engine/a.ts': `function a() {\n${lines(58)}}` })).toEqual([]);
  });

  it.each([
    ['describe', (body) => `describe('a', () => {\n${body}});`],
    ['describe.each', (body) => `describe.each(backends)('a', () => {\n${body}});`],
    ['a wrapper of the suite', (body) => `onEachBackend((backend) => {\nit('a', () => {});\n${body}});`],
    [
      'a contract suite',
      (body) => `export function contract() {\nfor (const b of c) describe('a', () => {});\n${body}}`,
    ],
  ])('checks the size of each test, but not of the suite around them: %s', (_, wrap) => {
    expect(violationsOf({ 'engine/a.test.ts': wrap(lines(80)) })).toEqual([]);
    const long = `it('is long', () => {\n${lines(59)}});\n`;
    expect(violationsOf({ 'engine/a.test.ts': wrap(long) })).toEqual([
      expect.stringContaining("it 'is long' has 61 lines"),
    ]);
  });
});

it('reports a file that cannot be parsed', () => {
  expect(violationsOf({ 'engine/a.ts': 'export const = 1;' })).toHaveLength(1);
});

it('skips node_modules and dist', () => {
  expect(violationsOf({ 'packages/a/node_modules/b.mjs': lines(500), 'packages/a/dist/b.ts': lines(500) })).toEqual([]);
});
