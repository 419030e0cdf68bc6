import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished, vi } from 'vitest';
import { launch, workflow } from '../../src/index.js';
import { silent } from '../support/backends.js';
import { failure } from '../support/faults.js';

// P8 for databases. Each of these tests needs one backend only, or none.
describe('P8 bad databases', () => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-bad-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const launchOn = (database: string) => failure(launch({ name: 'x', database, logger: silent }));

  it.each(['mysql://localhost/x', 'shop.sqlite', 'sqlite:', 'http://', 'postgres:', ''])(
    'refuses the URL %j and shows an example',
    async (url) => {
      const error = await launchOn(url);
      expect(error).toMatchObject({ code: 'DATABASE_URL_INVALID' });
      expect(error.message).toMatch(/postgres:\/\/.*sqlite:/);
    },
  );

  it('points at a misspelled scheme without showing it, and does not take the URL for a path', async () => {
    const { message } = await launchOn('postgress://user:secret@host/x');
    expect(message).toMatch(/Check the part before ":\/\/"\.$/);
    expect(message).not.toMatch(/postgress|secret/);
    expect((await launchOn('data/shop')).message).toMatch(/A path begins with "sqlite:"\.$/);
    for (const url of ['POSTGRES://user:secret@host/x', 'postgres:user:secret@host/x']) {
      expect((await launchOn(url)).message).toMatch(
        /Begin the URL with "postgres:\/\/" in lower case, with both slashes\.$/,
      );
    }
  });

  it.each(['postgres://user:secret@host:notaport/x', 'postgres://user:secret@[broken/x'])(
    'refuses the malformed URL %j without showing its password',
    async (url) => {
      const error = await launchOn(url);
      expect(error).toMatchObject({ code: 'DATABASE_URL_INVALID' });
      expect(error.message).not.toContain('secret');
    },
  );

  it.each([
    'postgres://user:secret@one,two:5432/x',
    'postgres://user:secret@one:5432,two:5433/x',
    'postgres://user:secret@/x?host=one,two',
  ])('refuses the URL %j of several hosts, and says what to give instead', async (url) => {
    const error = await launchOn(url);
    expect(error).toMatchObject({ code: 'DATABASE_URL_INVALID' });
    expect(error.message).toMatch(/several hosts.*leads to the primary/);
    expect(error.message).not.toContain('secret');
  });

  it('says that a server is unreachable, where, and what to check, without the password', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    const error = await launchOn(`postgres://ada:secret@127.0.0.1:${port}/x`);
    expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE' });
    expect(error.message).toContain(`127.0.0.1:${port}`);
    expect(error.message).toMatch(/Is the server running there/);
    expect(error.message).not.toContain('secret');
  });

  it('says that the server refuses SSL, not that it may be down', async () => {
    const url = new URL(inject('postgresUrl'));
    url.searchParams.set('sslmode', 'verify-full');
    const error = await launchOn(url.toString());
    expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE' });
    expect(error.message).toMatch(/does not support SSL.*refuses SSL: .*sslmode/);
    expect(error.message).not.toMatch(/running/);
  });

  it.each([
    ['npm/11.19.1 node/v24', 'npm install pg'],
    ['pnpm/10.2.0 npm/? node/v24', 'pnpm add pg'],
    ['yarn/4.9.1 npm/? node/v24', 'yarn add pg'],
  ])('says how to install pg with %s', async (agent, command) => {
    vi.stubEnv('npm_config_user_agent', agent);
    vi.doMock('pg', () => Promise.reject(new Error('Cannot find package')));
    onTestFinished(() => {
      vi.unstubAllEnvs();
      vi.doUnmock('pg');
    });
    const error = await launchOn('postgres://127.0.0.1:1/x');
    expect(error).toMatchObject({ code: 'DRIVER_MISSING' });
    expect(error.message).toContain(`Run: ${command}.`);
  });

  it('says that the password is wrong', async () => {
    const url = new URL(inject('postgresUrl'));
    url.username = 'nobody_of_this_name';
    url.password = 'wrong';
    const error = await launchOn(url.toString());
    expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE' });
    expect(error.message).not.toContain('wrong@');
  });

  it('says that a file is not a database, and leaves the file unchanged', async () => {
    const path = join(folder, 'letter.txt');
    await writeFile(path, 'Dear Ada, this is not a database, and it must stay as it is.\n'.repeat(100));
    const before = await readFile(path);
    const error = await launchOn(`sqlite:${path}`);
    expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE', details: { path } });
    expect(error.message).toMatch(/SQLite database/);
    expect(await readFile(path)).toEqual(before);
  });

  it('says that a database file is damaged', async () => {
    const path = join(folder, 'damaged.sqlite');
    const app = await launch({ name: 'x', database: `sqlite:${path}`, logger: silent });
    await app.shutdown();
    const bytes = await readFile(path);
    bytes.fill(0xff, 100);
    await writeFile(path, bytes);
    const error = await launchOn(`sqlite:${path}`);
    expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE' });
    expect(error.message).toContain(path);
  });

  it('says that a folder is missing, or that the path is a folder, and creates nothing', async () => {
    const missing = await launchOn(`sqlite:${join(folder, 'no', 'such', 'folder', 'x.sqlite')}`);
    expect(missing).toMatchObject({ code: 'DATABASE_UNREACHABLE' });
    expect(missing.message).toMatch(/folder exists/);
    await mkdir(join(folder, 'a folder'));
    expect(await launchOn(`sqlite:${join(folder, 'a folder')}`)).toMatchObject({ code: 'DATABASE_UNREACHABLE' });
    expect(await readdir(join(folder, 'a folder'))).toEqual([]);
  });

  it('points at a launch that was not awaited when a workflow finds no app', async () => {
    const wf = workflow('wf', async () => 1);
    const launched = launch({ name: 'x', database: 'sqlite::memory:', workflows: [wf], logger: silent });
    const hint = /A launch\(\) has not finished in this process\. Await it/;
    expect(await failure(wf())).toMatchObject({ code: 'NOT_LAUNCHED', message: expect.stringMatching(hint) });
    const app = await launched;
    expect(await wf()).toBe(1);
    await app.shutdown();
    expect((await failure(wf())).message).not.toMatch(hint);
  });

  it('leaves a workflow callable after a failed launch', async () => {
    const wf = workflow('wf', async () => 1);
    await failure(launch({ name: 'x', database: 'sqlite:/no/such/folder/x', workflows: [wf], logger: silent }));
    expect(await failure(wf())).toMatchObject({ code: 'NOT_LAUNCHED' });
    const app = await launch({ name: 'x', database: 'sqlite::memory:', workflows: [wf], logger: silent });
    expect(await wf()).toBe(1);
    await app.shutdown();
  });
});
