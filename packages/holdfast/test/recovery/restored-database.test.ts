import { describe, expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { queue, run, schedule, sleep, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { failure, gate, recordingLogger, tamper } from '../support/faults.js';
import { backUp } from '../support/time-machine.js';

/** Heartbeats so often that they detect the restore, or so rare that only a refused row detects it. */
const often = { ttlMs: 1_200 };
const seldom = { ttlMs: 3_600_000 };

describeBackends('a database that was restored under a live process', (backend) => {
  describe.each([
    ['detected by a heartbeat', often],
    ['detected by a refused row', seldom],
  ])('%s', (_, liveness) => {
    it('repeats exactly the steps that the history lacks, and the history ends up without gaps', async () => {
      const rig = await launchRig(backend, liveness);
      const handle = await rig.start('a');
      await rig.reached('a', 2);
      const backup = await backUp(rig.database);
      rig.letOn('a', 2);
      await rig.reached('a', 5);
      if (liveness === often) await rig.beaten();
      await backup.restore();
      if (liveness === often) await rig.logged(/gone back in time: heartbeat/);
      rig.letOn('a', 5);
      expect(await handle.result()).toBe('done');
      expect(rig.effects('a')).toEqual([0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 7]);
      expect(await rig.record('a')).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
      expect(
        rig.logger.matching(/1 workflow lost steps that were on record.*These steps run again: "a"\./),
      ).toHaveLength(1);
    });
  });

  it('fails callers that wait for a workflow which no longer exists, and names the workflow in the log', async () => {
    const rig = await launchRig(backend, often);
    const backup = await backUp(rig.database);
    const handle = await rig.start('lost');
    await rig.reached('lost', 2);
    const waiting = failure(handle.result());
    await rig.beaten();
    await backup.restore();
    expect(await waiting).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    await rig.logged(/could not be found.*"lost"/);
    rig.letOn('lost', 2);
    const again = await rig.start('lost');
    rig.letOn('lost', 5);
    expect(await again.result()).toBe('done');
  });

  it('names a lost workflow in the log also if its next row detects the restore before a heartbeat does', async () => {
    const rig = await launchRig(backend, seldom);
    const backup = await backUp(rig.database);
    const handles = [await rig.start('lost'), await rig.start('lost too')];
    await rig.reached('lost', 2);
    await rig.reached('lost too', 2);
    const waiting = handles.map((handle) => failure(handle.result()));
    await backup.restore();
    rig.letOn('lost', 2);
    rig.letOn('lost too', 2);
    for (const each of waiting) expect(await each).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    for (const id of ['lost', 'lost too']) await rig.logged(new RegExp(`could not be found.*"${id}"`));
  });

  it('continues a workflow that is unfinished again, even if nothing else shows the restore', async () => {
    const rig = await launchRig(backend, seldom, 5);
    const handle = await rig.start('a');
    rig.letOn('a', 2);
    await rig.reached('a', 5);
    const backup = await backUp(rig.database);
    rig.letOn('a', 5);
    expect(await handle.result()).toBe('done');
    await backup.restore();
    await rig.logged(/"a" is recorded as running in this process, but does not run here/);
    expect(await handle.result()).toBe('done');
    expect(rig.effects('a')).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 5, 6, 7]);
    expect(await rig.record('a')).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('gets the queues and schedules of launch() again if it is older than the process', async () => {
    const database = await backend.newDatabase();
    const backup = await backUp(database);
    let outage = 0;
    const wf = workflow('wf', async () => run('step', () => 'done'));
    const given = { queues: [queue('q')], schedules: [schedule('nightly', '0 3 * * *', wf, {})] };
    const options = { name: 'test', version: 'v1', logger: recordingLogger(), workflows: [wf], database, ...given };
    const app = await launchWith(options, { liveness: { ...often, monotonic: () => performance.now() + outage } });
    onTestFinished(() => app.shutdown());
    await backup.restore();
    outage = 60_000;
    const known = async () => [...(await app.queues.list()), ...(await app.schedules.list())].map(({ name }) => name);
    await expect.poll(known).toEqual(['q', 'nightly']);
    expect((await app.versions.list()).length).toBe(1);
    expect(await wf.with({ app, queue: 'q' })()).toBe('done');
  });

  it('continues a workflow that had ended in this process and is unfinished again', async () => {
    const rig = await launchRig(backend, often);
    const handle = await rig.start('a');
    rig.letOn('a', 2);
    await rig.reached('a', 5);
    const backup = await backUp(rig.database);
    rig.letOn('a', 5);
    expect(await handle.result()).toBe('done');
    await rig.beaten();
    await backup.restore();
    await rig.logged(/had ended in this process.*"a"/);
    expect(await handle.result()).toBe('done');
    expect(rig.effects('a')).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 5, 6, 7]);
    expect(await rig.record('a')).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });
});

describeBackends('a history with a gap', (backend) => {
  it('stalls its workflow with advice that fits, if such a history ever exists', async () => {
    const wf = workflow('wf', async () => {
      for (let n = 0; n < 3; n++) await run(`step ${n}`, () => n);
      await sleep('1h');
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database });
    await wf.with({ id: 'holed' }).start();
    await t.clock.advance('1m');
    await tamper(database, "delete from operation_outputs where workflow_uuid = 'holed' and function_id = 1");
    const again = await t.restart();
    await again.clock.advance('1m');
    const error = await failure(again.app.workflows.handle('holed').result());
    expect(error.code).toBe('NON_DETERMINISM');
    expect(error.message).toMatch(
      /no result number 1, although it has later results\. A retry .*fork the workflow from .*fromStep: 2/,
    );
  });
});

async function launchRig(backend: Backend, liveness: { ttlMs: number }, reclaimEveryMs?: number) {
  const database = await backend.newDatabase();
  const logger = recordingLogger();
  const done: string[] = [];
  const gates = new Map<string, ReturnType<typeof gate>>();
  const gateOf = (key: string) => {
    const found = gates.get(key) ?? gate();
    gates.set(key, found);
    return found;
  };
  const wf = workflow('wf', async (name: string) => {
    for (let n = 0; n < 8; n++) {
      await run(`step ${n}`, async () => {
        done.push(`${name} ${n}`);
        // The step is running when the test checks: its effect has happened, and its checkpoint has not.
        if (n === 2 || n === 5) await gateOf(`${name} ${n}`).promise;
      });
    }
    return 'done';
  });
  const internals = { liveness, ...(reclaimEveryMs && { reclaimEveryMs }) };
  const app = await launchWith({ name: 'test', version: 'v1', logger, workflows: [wf], database }, internals);
  onTestFinished(() => app.shutdown());
  return {
    database,
    logger,
    start: (id: string) => wf.with({ app, id }).start(id),
    reached: (name: string, n: number) => expect.poll(() => done, { interval: 5 }).toContain(`${name} ${n}`),
    letOn: (name: string, n: number) => gateOf(`${name} ${n}`).open(undefined),
    effects: (name: string) =>
      done.filter((each) => each.startsWith(`${name} `)).map((each) => Number(each.split(' ')[1])),
    /** Waits until the process has sent heartbeats. */
    beaten: async () => {
      const beats = async () => Number((await tamper(database, 'select beats from executors'))[0]?.beats);
      const before = await beats();
      await expect.poll(beats, { interval: 20 }).toBeGreaterThan(before + 1);
    },
    logged: (pattern: RegExp) =>
      expect.poll(() => logger.matching(pattern).length, { timeout: 90_000 }).toBeGreaterThan(0),
    record: async (id: string) => {
      const of = `from operation_outputs where workflow_uuid = '${id}' order by completion_seq`;
      return (await tamper(database, `select completion_seq as seq ${of}`)).map(({ seq }) => Number(seq));
    },
  };
}
