import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openStorage } from '../../src/storage/open.js';
import { silent } from '../support/backends.js';

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-urls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function open(url: string, migrate = true): Promise<void> {
  const options = { schema: 'dbos', migrate, logger: silent, applicationName: 'test' };
  await (await openStorage({ url, ...options })).close();
}

it.each(['', './'])('a name after three slashes and "%s" is a file in the working folder', async (folder) => {
  // Test processes share one working folder, so the name is unique.
  const name = `holdfast-url-${process.pid}-${Date.now()}.sqlite`;
  onTestFinished(() => {
    for (const file of [name, `${name}-wal`, `${name}-shm`]) rmSync(file, { force: true });
  });
  await open(`sqlite:///${folder}${name}`);
  expect(existsSync(name)).toBe(true);
  expect(existsSync(`/${name}`)).toBe(false);
});

it.each(['sqlite:', 'sqlite://', 'sqlite:///'])('an absolute path after %s stays the same', async (scheme) => {
  const file = join(newFolder(), 'some.sqlite');
  await open(`${scheme}${file}`);
  expect(existsSync(file)).toBe(true);
});

it.each([true, false])(
  'the error about a missing folder after three slashes suggests the working folder (migrate: %s)',
  async (migrate) => {
    const folder = newFolder().slice(1);
    const hint = `For a file in the working folder, write "sqlite:${folder}/none/shop.sqlite".`;
    await expect(open(`sqlite:///${folder}/none/shop.sqlite`, migrate)).rejects.toThrow(hint);
    for (const scheme of ['sqlite:', 'sqlite:///']) {
      const absolute = open(`${scheme}/${folder}/none/shop.sqlite`, migrate);
      await expect(absolute).rejects.not.toThrow('working folder');
    }
  },
);
