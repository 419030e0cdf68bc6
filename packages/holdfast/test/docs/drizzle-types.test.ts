import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';

const entry = new URL('../../dist/storage/caller/adapters/drizzle.d.ts', import.meta.url);

it('holdfast/drizzle compiles in a project without the types of better-sqlite3', async () => {
  const files = new Map<string, string>();
  const follow = async (file: URL): Promise<void> => {
    if (files.has(file.href)) return;
    const text = await readFile(file, 'utf8');
    files.set(file.href, text);
    for (const [, next] of text.matchAll(/from '(\.[^']+)\.js'/g)) await follow(new URL(`${next}.d.ts`, file));
  };
  await follow(entry);
  expect(files.size).toBeGreaterThan(1);
  for (const [file, text] of files) expect(text, file).not.toMatch(/from 'better-sqlite3'/);
});
