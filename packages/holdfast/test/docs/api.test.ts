import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { compile, newProject } from './programs.js';

const page = await readFile(new URL('../../../../docs/reference/api.md', import.meta.url), 'utf8');
const parts = new Map(
  page
    .split(/^## /m)
    .slice(1)
    .map((text) => [text.slice(0, text.indexOf('\n')).replaceAll('`', ''), text]),
);

/** What a part of the page lists for a type. */
interface Described {
  /** The type with its parameters, as in `Event<T>`. */
  readonly type: string;
  readonly members: readonly string[];
  /** The base type, whose members the type has too. */
  readonly base: string | undefined;
}

it.each([
  ['holdfast', ['index.ts']],
  ['holdfast/classes', ['classes/index.ts']],
  ['holdfast/testing', ['testing/index.ts']],
  ['Datasources', ['pg', 'postgres-js', 'knex', 'kysely', 'drizzle', 'sqlite', 'better-sqlite3'].map(datasourceFile)],
])('docs/reference/api.md has every name of %s once, and no others', async (part, files) => {
  const exported = (await Promise.all(files.map(exportsOf))).flat();
  expect(namesOn(textOf(part)).sort()).toEqual(exported.sort());
});

it('docs/reference/api.md names every member of each type, and no others', async () => {
  const folder = await newProject();
  const lines = ['holdfast', 'holdfast/classes', 'holdfast/testing'].flatMap((part, at) => [
    `import type * as from${at} from '${part}';`,
    ...typesOn(textOf(part)).map((each) => comparison(`from${at}`, each)),
  ]);
  expect(lines.length).toBeGreaterThan(70);
  await compile(folder, 'members', lines.join('\n'));
});

/**
 * Returns code that compiles only if the members are exactly those of the type, apart from the members of every
 * Error.
 */
function comparison(module: string, { type, members, base }: Described): string {
  const name = type.replace(/<.*/, '');
  const parameters = type.includes('<') ? `<${type.split(',').map(() => 'any')}>` : '';
  const without = base === undefined ? 'never' : `keyof from0.${base}`;
  const whole = `${module}.${name}${parameters}`;
  const keys = `Exclude<keyof (${whole}), ${without} | (${whole} extends Error ? keyof Error : never)>`;
  return `({ ${members.map((each) => `${each}: 1`)} }) satisfies Record<${keys}, 1>;`;
}

function textOf(part: string): string {
  const text = parts.get(part);
  if (text === undefined) throw new Error(`docs/reference/api.md has no part "${part}".`);
  return text;
}

function datasourceFile(name: string): string {
  return `storage/caller/adapters/${name}.ts`;
}

async function exportsOf(file: string): Promise<string[]> {
  const text = await readFile(new URL(`../../src/${file}`, import.meta.url), 'utf8');
  const lists = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list]) => list?.split(',') ?? []);
  const functions = [...text.matchAll(/^export function (\w+)/gm)].map(([, name]) => name ?? '');
  return [...new Set([...lists.map((each) => each.replace(/\btype\b/, '').trim()), ...functions])].filter(Boolean);
}

/** A section under the heading of a type lists the members of the type. All other rows list names. */
function namesOn(text: string): string[] {
  const [first = '', ...sections] = text.split(/^### /m);
  const headings = sections.flatMap((section) => /^`(\w+)/.exec(section)?.[1] ?? []);
  const rows = [first, ...sections.filter((section) => !section.startsWith('`'))].flatMap(rowsOf);
  return [...headings, ...rows.flatMap(([cell]) => leading(cell))];
}

function typesOn(text: string): Described[] {
  const [first = '', ...sections] = text.split(/^### /m);
  const headed = sections.filter((section) => section.startsWith('`'));
  const rows = [first, ...sections.filter((section) => !section.startsWith('`'))].flatMap(rowsOf);
  return [
    ...headed.map((section) => ({
      type: /^`([^`]+)`/.exec(section)?.[1] ?? '',
      members: rowsOf(section).flatMap(([cell]) => leading(cell)),
      base: undefined,
    })),
    ...rows.filter((cells) => cells.length === 3).map(([type = '', members = '']) => inOneRow(type, members)),
  ];
}

function inOneRow(type: string, members: string): Described {
  const [own = '', base] = members.split('all of ');
  return { type: type.replaceAll('`', ''), members: own.split(',').flatMap(leading), base: base?.replaceAll('`', '') };
}

function rowsOf(text: string): string[][] {
  const rows = text.split('\n').filter((line) => line.startsWith('| `'));
  return rows.map((line) =>
    line
      .slice(1, -1)
      .split(' | ')
      .map((cell) => cell.trim()),
  );
}

/** The name at the beginning of a cell. */
function leading(cell: string | undefined): string[] {
  return /^\s*`(\w+)/.exec(cell ?? '')?.[1]?.split(' ') ?? [];
}
