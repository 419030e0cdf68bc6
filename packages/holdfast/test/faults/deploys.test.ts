import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, copyFileSync, cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, beforeAll, expect, it, onTestFinished } from 'vitest';
import { connect } from '../../src/index.js';
import { target } from '../../src/storage/migrations/migration-state.js';
import { describeBackends, silent } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { fixturePath, requireBuild } from './child-process.js';

interface Message {
  readonly event: string;
  readonly workflowId?: string;
}

interface Worker {
  readonly process: ChildProcess;
  /** Starts workflows in the worker. Resolves when the second step of each workflow is running. */
  begin(...ids: string[]): Promise<void>;
  /** Lets the running step end. */
  open(id: string): void;
  /** Resolves when the worker has reported the event for this workflow. */
  says(event: string, workflowId?: string): Promise<void>;
  exit(): Promise<unknown[]>;
}

describeBackends('a deploy', (backend) => {
  const spawn = workers();

  it('records work that ends during the SIGTERM drain, hands the rest over at once, and cancels nothing', async () => {
    const database = await backend.newDatabase();
    const first = await spawn({ database, me: 'first', drain: '3s' });
    const second = await spawn({ database, me: 'second' });
    await first.begin('ends', 'stays', 'stays too');
    first.process.kill('SIGTERM');
    await first.says('draining');
    first.open('ends');
    expect(await first.exit()).toEqual([0, null]);
    await Promise.all([second.says('begun', 'stays'), second.says('begun', 'stays too')]);
    const handedOver = ['first', 'second', 'second'];
    expect(await outcomes(database)).toEqual({
      ends: { status: 'SUCCESS', attempts: 1, output: ['first', 'first', 'first'] },
      // A handed-over workflow counts no recovery attempt, because no executor was declared dead.
      stays: { status: 'SUCCESS', attempts: 1, output: handedOver },
      'stays too': { status: 'SUCCESS', attempts: 1, output: handedOver },
    });
    expect(second.process.exitCode).toBeNull();
  });

  it('takes no work from a live process with the same configured ID, and leaves none behind', async () => {
    const database = await backend.newDatabase();
    const executorId = 'pod-0';
    const first = await spawn({ database, me: 'first', executorId, drain: 0 });
    await first.begin('own', 'handed over');
    const second = await spawn({ database, me: 'second', executorId });
    first.open('own');
    expect(await resultOf(database, 'own')).toEqual(['first', 'first', 'first']);
    first.process.kill('SIGTERM');
    expect(await first.exit()).toEqual([0, null]);
    expect(await resultOf(database, 'handed over')).toEqual(['first', 'second', 'second']);
    expect(await outcomes(database)).toMatchObject({ own: { attempts: 1 }, 'handed over': { attempts: 1 } });
    expect(second.process.exitCode).toBeNull();
  });

  it('loses no work of a killed process that had the same configured ID', async () => {
    const database = await backend.newDatabase();
    const executorId = 'pod-0';
    const first = await spawn({ database, me: 'first', executorId });
    await first.begin('left');
    await spawn({ database, me: 'second', executorId });
    first.process.kill('SIGKILL');
    expect(await resultOf(database, 'left')).toEqual(['first', 'second', 'second']);
    expect(await outcomes(database)).toMatchObject({ left: { status: 'SUCCESS', attempts: 2 } });
  });

  it('with a new migration lets the old release start, work and hand over, in either order', async () => {
    const database = await backend.newDatabase();
    const library = nextRelease();
    const running = await spawn({ database, me: 'first', executorId: 'old', drain: 0 });
    await running.begin('before');
    const next = await spawn({ database, me: 'second', executorId: 'new', library });
    expect(await tamper(database, 'select of_next from workflow_status')).toEqual([{ of_next: null }]);
    // The old process crashes in the middle of the deploy. Its supervisor starts it again later.
    running.process.kill('SIGKILL');
    // The surviving process takes over the work. Until the old release is back, that is the new release.
    await next.says('begun', 'before');
    const late = await spawn({ database, me: 'first', executorId: 'old', drain: 0 });
    await late.begin('after');
    late.process.kill('SIGTERM');
    expect(await late.exit()).toEqual([0, null]);
    await spawn({ database, me: 'third', executorId: 'old' });
    next.process.kill('SIGTERM');
    await next.exit();
    expect(await outcomes(database)).toMatchObject({
      before: { status: 'SUCCESS', attempts: 2, output: ['first', 'second', 'second'] },
      after: { status: 'SUCCESS', attempts: 1, output: ['first', 'second', 'second'] },
    });
  });
});

/** Builds a copy of the package with one more migration. Returns the path to import. */
function nextRelease(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-next-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
  cpSync(here('../../dist'), join(folder, 'dist'), { recursive: true });
  copyFileSync(here('../../package.json'), join(folder, 'package.json'));
  symlinkSync(here('../../../../node_modules'), join(folder, 'node_modules'));
  appendFileSync(
    join(folder, 'dist/storage/migrations/holdfast-migrations.js'),
    `holdfastMigrations.push({
      version: ${target.own + 1},
      name: 'of the next release',
      change: (d) => [...d.addColumns('workflow_status', 'of_next text'), \`create table \${d.table('of_next')} (id text)\`],
      oldestCode: ${target.own},
    });`,
  );
  return pathToFileURL(join(folder, 'dist/index.js')).href;
}

async function withClient<T>(
  database: string,
  work: (client: Awaited<ReturnType<typeof connect>>) => Promise<T>,
): Promise<T> {
  const client = await connect({ name: 'deploys', database, logger: silent });
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

function resultOf(database: string, id: string): Promise<unknown> {
  return withClient(database, ({ workflows }) => workflows.handle(id).result());
}

/** The final state of all workflows. */
function outcomes(database: string): Promise<Record<string, object>> {
  return withClient(database, async ({ workflows }) => {
    const ids = (await workflows.list()).map(({ workflowId }) => workflowId);
    await Promise.all(ids.map((id) => workflows.handle(id).result()));
    const ended = await workflows.list();
    return Object.fromEntries(
      ended.map(({ workflowId, status, attempts, output }) => [workflowId, { status, attempts, output }]),
    );
  });
}

function workers(): (argument: object) => Promise<Worker> {
  const started: ChildProcess[] = [];
  beforeAll(requireBuild);
  afterEach(() => {
    for (const child of started.splice(0)) child.kill('SIGKILL');
  });
  return async (argument) => {
    const child = fork(fixturePath('deploy-worker.mjs'), [JSON.stringify(argument)], {
      stdio: ['pipe', 'inherit', 'inherit', 'ipc'],
    });
    started.push(child);
    const exited = once(child, 'exit');
    const heard: Message[] = [];
    child.on('message', (message: Message) => heard.push(message));
    const says: Worker['says'] = async (event, workflowId) => {
      const isIt = (message: Message): boolean => message.event === event && message.workflowId === workflowId;
      while (!heard.some(isIt)) await once(child, 'message');
    };
    await says('ready');
    return {
      process: child,
      begin: async (...ids) => {
        for (const id of ids) child.send({ start: id });
        await Promise.all(ids.map((id) => says('begun', id)));
      },
      open: (id) => void child.send({ open: id }),
      says,
      exit: () => exited,
    };
  };
}
