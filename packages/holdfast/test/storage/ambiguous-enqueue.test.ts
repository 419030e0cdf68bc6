import { describe, expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { debouncer, queue, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { failure, overTime, tamper } from '../support/faults.js';
import { type Fault, openWire, type Wire } from './wire.js';

const kinds = ['cut-before', 'cut-after'] as const;

describeBackends('a connection that breaks while work is enqueued', suite, ['postgres']);

function suite(backend: Backend): void {
  const ran: string[] = [];
  const jobs = queue('jobs');
  const work = workflow('work', async (name: string) => {
    ran.push(name);
    return name;
  });
  const parent = workflow('parent', async () => work.with({ queue: jobs, dedupId: 'child' })('of its parent'));
  const welcome = debouncer(work, { start: { queue: jobs } });
  const launch = async (): Promise<Rig> => {
    ran.length = 0;
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const t = await backend.testApp({ database: wire.url, workflows: [work, parent], queues: [jobs] });
    return { database, wire, t };
  };
  const finish = (t: TestApp, handles: readonly { result(): Promise<unknown> }[]) =>
    overTime(t.clock, Promise.all(handles.map((handle) => handle.result())));

  describe.each(kinds)('%s', (kind) => {
    const broken = async (fault: Pick<Fault, 'statement' | 'nth' | 'meanwhile'>) => {
      const rig = await launch();
      return { ...rig, happened: rig.wire.inject({ ...fault, kind }) };
    };

    it('does not lose or repeat a start, or the starts that share its statement', async () => {
      const { t, database, happened } = await broken({ statement: 'workflows.enqueue' });
      const names = ['a', 'b', 'c'];
      const handles = await Promise.all(names.map((name) => work.with({ queue: jobs }).start(name)));
      await happened;
      expect(await finish(t, handles)).toEqual(names);
      expect(ran.sort()).toEqual(names);
      expect(await rowsOf(database)).toEqual(names.map(() => done));
    });

    it('does not report a start with a deduplication ID as its own duplicate, but reports a second start', async () => {
      const { t, database, happened } = await broken({ statement: 'workflows.enqueue' });
      const unique = work.with({ queue: jobs, dedupId: 'd', delay: '1s' });
      const handle = await unique.start('first');
      await happened;
      expect(await failure(unique.start('second'))).toMatchObject({
        code: 'QUEUE_DUPLICATE',
        details: { workflowId: handle.id },
      });
      await finish(t, [handle]);
      expect(ran).toEqual(['first']);
      expect(await rowsOf(database)).toEqual([done]);
    });

    it('makes a start fail only if another workflow took its deduplication ID meanwhile', async () => {
      const rig = await launch();
      const insert = `insert into workflow_status (workflow_uuid, status, name, queue_name, deduplication_id)
        values ('thief', 'ENQUEUED', 'nobody has it', 'jobs', 'd')`;
      const meanwhile = () => (kind === 'cut-before' ? tamper(rig.database, insert) : Promise.resolve());
      const happened = rig.wire.inject({ statement: 'workflows.enqueue', kind, meanwhile });
      const start = work.with({ queue: jobs, dedupId: 'd', id: 'mine' }).start('first');
      if (kind === 'cut-after') expect((await start).id).toBe('mine');
      else expect(await failure(start)).toMatchObject({ details: { workflowId: 'thief' } });
      await happened;
    });

    it('does not lose or repeat a child, and its parent gets the result', async () => {
      const { t, database, happened } = await broken({ statement: 'workflows.enqueueChild' });
      const handle = await parent.start();
      expect(await finish(t, [handle])).toEqual(['of its parent']);
      await happened;
      expect(ran).toEqual(['of its parent']);
      expect(await rowsOf(database)).toEqual([done, done]);
    });

    it('does not lose or repeat a batch, and keeps its order and deduplication IDs', async () => {
      const { t, database, happened } = await broken({ statement: 'workflows.enqueueAll' });
      const names = Array.from({ length: 20 }, (_, i) => `job ${i}`);
      const handles = await work.with({ queue: jobs }).startAll(
        names.map((name) => [name]),
        ([name], i) => (i % 2 ? { dedupId: name } : {}),
      );
      await happened;
      const stored = await tamper(database, 'select workflow_uuid as id from workflow_status order by enqueue_seq');
      expect(stored.map((row) => row.id)).toEqual(handles.map((handle) => handle.id));
      expect(await finish(t, handles)).toEqual(names);
      expect(ran).toHaveLength(20);
      expect(await rowsOf(database)).toEqual(names.map(() => done));
    });

    it.each([1, 2, 3])('keeps call %i of a debouncer in the only run, which gets the last input', async (nth) => {
      const { t, database, happened } = await broken({ statement: 'workflows.debounce', nth });
      const handles = [];
      for (const name of ['a', 'b', 'c']) handles.push(await welcome.debounce('key', '10s', name));
      await happened;
      expect(new Set(handles.map((handle) => handle.id)).size).toBe(1);
      await finish(t, handles);
      expect(ran).toEqual(['c']);
      expect(await rowsOf(database)).toEqual([done]);
    });

    it('keeps a repeated debouncer call in one run, even if that run begins before the repetition', async () => {
      const rig = await launch();
      const due = `update workflow_status set status = 'ENQUEUED', deduplication_id = null where status = 'DELAYED'`;
      const happened = rig.wire.inject({
        ...{ statement: 'workflows.debounce', kind },
        meanwhile: () => tamper(rig.database, due),
      });
      const handle = await welcome.debounce('key', '1s', 'a');
      await happened;
      await finish(rig.t, [handle]);
      expect(ran).toEqual(['a']);
      expect(await rowsOf(rig.database)).toEqual([done]);
    });

    it('does not lose or repeat delayed workflows that become due', async () => {
      const { t, database, happened } = await broken({ statement: 'workflows.promoteDue' });
      const handles = await Promise.all(['a', 'b'].map((name) => work.with({ queue: jobs, delay: '1s' }).start(name)));
      const debounced = await welcome.debounce('key', '1s', 'c');
      await finish(t, [...handles, debounced]);
      await happened;
      expect(ran.sort()).toEqual(['a', 'b', 'c']);
      expect(await rowsOf(database)).toEqual([done, done, done]);
    });
  });
}

interface Rig {
  readonly database: string;
  readonly wire: Wire;
  readonly t: TestApp;
}

const done = { status: 'SUCCESS', attempts: 1, dedup: null };

function rowsOf(database: string): Promise<Record<string, unknown>[]> {
  return tamper(
    database,
    'select status, recovery_attempts::int as attempts, deduplication_id as dedup from workflow_status',
  );
}

describeBackends('an enqueueing whose answer never arrives', blackHoles, ['postgres']);

function blackHoles(backend: Backend): void {
  const ran: string[] = [];
  const jobs = queue('jobs', { concurrency: 2 });
  const work = workflow('work', async (name: string) => {
    ran.push(name);
    return name;
  });
  const calls: Record<string, () => Promise<readonly { result(): Promise<unknown> }[]>> = {
    'workflows.enqueue': async () => [await work.with({ queue: jobs, dedupId: 'd' }).start('a')],
    'workflows.enqueueAll': () => work.with({ queue: jobs }).startAll([['a'], ['b']]),
    'workflows.debounce': async () => [await debouncer(work).debounce('key', 0, 'a')],
    'workflows.dequeue-exclusive': () => work.with({ queue: jobs }).startAll([['a'], ['b'], ['c']]),
    'workflows.promoteDue': async () => [await work.with({ queue: jobs, delay: 20 }).start('a')],
    'queues.usage': () => work.with({ queue: jobs }).startAll([['a'], ['b'], ['c']]),
    'queues.overview': async () => [await work.with({ queue: jobs, delay: 20 }).start('a')],
  };

  it.each(Object.entries(calls))('(%s) is found committed after the wait for it ends', async (statement, call) => {
    ran.length = 0;
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const options = { name: 'test', database: wire.url, workflows: [work], queues: [jobs], logger: silent };
    const app = await launchWith(options, { answerTimeoutMs: 200 });
    onTestFinished(() => app.shutdown());
    const happened = wire.inject({ statement, kind: 'black-hole' });
    const handles = await call();
    const results = await Promise.all(handles.map((handle) => handle.result()));
    await happened;
    expect(ran.sort()).toEqual(results);
    expect(await rowsOf(database)).toEqual(results.map(() => done));
  });
}
