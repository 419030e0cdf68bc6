import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { event, queue, run, sleep, stream, topic, transaction, type Workflow, workflow } from '../../src/index.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { failure, recordingLogger, tamper } from '../support/faults.js';
import { type Backup, backUp } from '../support/time-machine.js';

const letters = topic<string>('letters');
const progress = event<number>('progress');
const lines = stream<number>('lines');
const waiting = queue('waiting');

/** The next operations of a workflow whose last step is gone from the database. The row itself is refused. */
const next: Record<string, (own: { ran: string[]; child: Workflow<[], string> }) => Promise<unknown>> = {
  'a step': ({ ran }) => run('next', () => void ran.push('next')),
  'steps side by side': ({ ran }) =>
    Promise.all([1, 2, 3].map((n) => run(`next ${n}`, () => void (n === 2 && ran.push('next'))))),
  'a step that is tried again': ({ ran }) => {
    let attempts = 0;
    const body = (): void => {
      if (attempts++ === 0) throw new Error('once more');
      ran.push('next');
    };
    return run('next', body, { retries: { max: 2, initial: '1ms' } });
  },
  'a sleep': async ({ ran }) => {
    await sleep(1);
    ran.push('next');
  },
  'a child': ({ child }) => child(),
  'a child on a queue': async ({ child }) => (await child.with({ queue: waiting }).start()).result(),
  'an event': async ({ ran }) => {
    await progress.set(1);
    ran.push('next');
  },
  'a stream': async ({ ran }) => {
    await lines.write(1);
    ran.push('next');
  },
  'a message to itself': async ({ ran }) => {
    await letters.send('wf', 'hello');
    ran.push((await letters.receive({ timeout: '10s' })) === 'hello' ? 'next' : 'nothing');
    expect(await letters.receive({ timeout: 1 })).toBeUndefined();
  },
  'its end': async ({ ran }) => void ran.push('next'),
};

describeBackends('a row without its predecessor is refused, and its workflow continues from the history', (backend) => {
  it.each(Object.entries(next))('%s', async (what, act) => {
    const rig = await launchRig(backend, act);
    expect(await (await rig.start()).result({ timeout: '20s' })).toBe('done');
    expect(rig.ran.filter((each) => each === 'first')).toHaveLength(2);
    // Bodies that ran before their row was refused ran twice. A child or second attempt was refused before it started.
    const times = rig.ran.filter((each) => each === 'next').length;
    expect(times).toBe(/^(a step$|steps|its end)/.test(what) ? 2 : 1);
    expect(rig.logger.matching(/1 workflow lost steps .*"wf"/)).toHaveLength(1);
    expect(await rig.orphans()).toEqual([]);
  });

  it('a workflow that is gone completely is given up, and its callers get an error', async () => {
    const rig = await launchRig(backend, next['a step'] as never, 'before its start');
    expect(await failure((await rig.start()).result({ timeout: '20s' }))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(rig.ran).toEqual(['first', 'next']);
  });
});

describeBackends(
  'a transaction in the same database whose predecessor is gone',
  (backend) => {
    it('is rolled back, and takes effect once', async () => {
      const database = await backend.newDatabase();
      await tamper(database, 'create table public.counted (n int not null)');
      await tamper(database, 'insert into public.counted values (0)');
      const pool = new pg.Pool({ connectionString: database, max: 2 });
      // The database is dropped before the last connection is closed.
      pool.on('error', () => {});
      onTestFinished(() => pool.end());
      const bump = transaction(pgDatasource(pool), 'bump', async (tx) => {
        await tx.query('update public.counted set n = n + 1');
      });
      const rig = await launchRig(backend, () => bump(), 'after the start', database);
      expect(await (await rig.start()).result({ timeout: '20s' })).toBe('done');
      expect(await tamper(database, 'select n from public.counted')).toEqual([{ n: 1 }]);
      expect(rig.ran).toEqual(['first', 'first']);
      expect(rig.logger.matching(/1 workflow lost steps .*"wf"/)).toHaveLength(1);
    });
  },
  ['postgres'],
);

async function launchRig(
  backend: Backend,
  act: (typeof next)[string],
  backed: 'after the start' | 'before its start' = 'after the start',
  given?: string,
) {
  const database = given ?? (await backend.newDatabase());
  const logger = recordingLogger();
  const ran: string[] = [];
  let backup: Backup | undefined = backed === 'before its start' ? await backUp(database) : undefined;
  let isRestored = false;
  const child = workflow('child', async () => run('in the child', () => void ran.push('next')).then(() => 'child'));
  const wf = workflow('wf', async () => {
    await run('first', async () => {
      ran.push('first');
      backup ??= await backUp(database);
    });
    // In the first execution, between two steps.
    if (!isRestored) {
      isRestored = true;
      await backup?.restore();
    }
    await act({ ran, child });
    return 'done';
  });
  const options = { name: 'test', version: 'v1', logger, database, workflows: [wf, child], queues: [waiting] };
  const app = await launchWith(options, { liveness: { ttlMs: 3_600_000 } });
  onTestFinished(() => app.shutdown());
  return {
    ran,
    logger,
    start: () => wf.with({ app, id: 'wf' }).start(),
    /** Finds step results whose predecessor is missing. */
    orphans: () =>
      tamper(
        database,
        'select a.workflow_uuid, a.completion_seq from operation_outputs a where a.completion_seq > 0 and not exists ' +
          '(select 1 from operation_outputs b where b.workflow_uuid = a.workflow_uuid and b.completion_seq = a.completion_seq - 1)',
      ),
  };
}
