import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const library = join(root, 'packages', 'holdfast');
const read = (page: string): string => readFileSync(join(root, page), 'utf8');
const pagesIn = (folder: string): string[] =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name));

const docs = ['start', 'guides', 'operate', 'reference', 'decisions'].map((name) => `docs/${name}`);
const folders = ['.', 'docs', ...docs, 'examples/checkout'];
const pages = folders.flatMap(pagesIn);

it.each(pages)('the links of %s lead to existing files', (page) => {
  const links = [...read(page).matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, link]) => link ?? '');
  const broken = links.filter((link) => !/^\w+:/.test(link) && !existsSync(join(root, dirname(page), link)));
  expect(broken).toEqual([]);
});

it('NOTICE names every installed dependency', () => {
  const { dependencies } = JSON.parse(read('packages/holdfast/package.json'));
  const notice = read('NOTICE');
  expect(Object.keys(dependencies).filter((name) => !notice.includes(`${name} (`))).toEqual([]);
});

it('docs/guarantees.md names test files that exist', () => {
  const named = [...read('docs/guarantees.md').matchAll(/`((?!examples|test\/)[a-z]+\/[\w-]+)(?:\.ts)?`/g)];
  const files = named.map(([, name]) => join(library, 'test', name ?? ''));
  expect(files.length).toBeGreaterThan(20);
  expect(files.filter((file) => !existsSync(`${file}.test.ts`) && !existsSync(`${file}.ts`))).toEqual([]);
});

it.each([...pagesIn('docs/decisions'), 'ARCHITECTURE.md'])('%s names source files that exist', (page) => {
  const folders = 'app|codec|engine|management|model|queues|recovery|storage|testing|postgres|sqlite';
  const named = [...read(page).matchAll(new RegExp(`\`((?:${folders})/[\\w/-]+\\.ts)\``, 'g'))].map(
    ([, name]) => name ?? '',
  );
  const places = (name: string): string[] => [join(library, 'src', name), join(library, 'src', 'storage', name)];
  expect(named.filter((name) => !places(name).some((path) => existsSync(path)))).toEqual([]);
});
