import { existsSync, readdirSync } from 'node:fs';
import { format } from 'sql-formatter';
import { describe, expect, it } from 'vitest';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { sqliteDialect } from '../../src/storage/sqlite/dialect.js';
import { everyStatement } from './every-statement.js';

/**
 * Every statement as formatted SQL, in files beside the code, for those who review a change of SQL. After such a change,
 * run `npx vitest run sql-snapshots -u`.
 */
const folder = new URL('../../src/storage/sql/statements/', import.meta.url);

describe.each([
  ['postgres', postgresDialect('dbos')],
  ['sqlite', sqliteDialect],
] as const)('the statements for %s', (database, dialect) => {
  it('are as their files show', async () => {
    const files = await filesOf(dialect);
    for (const [noun, text] of files) {
      await expect(text).toMatchFileSnapshot(new URL(`${database}/${noun}.sql`, folder).pathname);
    }
    // With -u, new files are written after the test.
    const path = new URL(`${database}/`, folder);
    const present = existsSync(path) ? readdirSync(path) : [];
    expect(present.filter((name) => !files.has(name.replace('.sql', '')))).toEqual([]);
  });
});

/** One file for each noun: `steps.record` is in the file `steps`. */
async function filesOf(dialect: Parameters<typeof everyStatement>[0]): Promise<Map<string, string>> {
  const statements = (await everyStatement(dialect))
    .filter(({ name }) => !isVariant(name))
    .map(({ name, variant, text }) => ({ name: variant ? `${name} (${variant})` : name, sql: readable(text) }));
  statements.sort((a, b) => (a.name === b.name ? a.sql.localeCompare(b.sql) : a.name.localeCompare(b.name)));
  const files = new Map<string, string>();
  for (const { name, sql } of statements) {
    const noun = name.split('.')[0] ?? name;
    files.set(noun, `${files.get(noun) ?? ''}-- ${name}\n${sql};\n\n`);
  }
  return files;
}

/** Claims come in 26 variants, which differ in a condition or two. Three of them are shown. */
const shownClaims = ['dequeue-free', 'dequeue-exclusive', 'dequeue-partitions-exclusive'];

function isVariant(name: string): boolean {
  return name.startsWith('workflows.dequeue') && !shownClaims.some((shown) => name === `workflows.${shown}`);
}

const maxWidth = 110;

function readable(sql: string): string {
  const paramTypes = { numbered: ['$' as const] };
  return filled(format(sql, { language: 'postgresql', keywordCase: 'lower', expressionWidth: 100, paramTypes }));
}

/** Joins the items of a list that the formatter has put on lines of their own, as many as fit. */
function filled(sql: string): string {
  const lines: string[] = [];
  for (const line of sql.split('\n')) {
    const last = lines.at(-1) ?? '';
    const isItem = last.endsWith(',') && indentOf(last) === indentOf(line) && isBalanced(last) && isBalanced(line);
    if (isItem && last.length + line.trim().length < maxWidth) lines[lines.length - 1] = `${last} ${line.trim()}`;
    else lines.push(line);
  }
  return lines.join('\n');
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}

function isBalanced(line: string): boolean {
  return line.split('(').length === line.split(')').length;
}
