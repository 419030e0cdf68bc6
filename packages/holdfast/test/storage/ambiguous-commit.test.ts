import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { run, sleep, workflow } from '../../src/index.js';
import { Signals } from '../../src/testing/index.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { type Fault, openWire, type Wire } from './wire.js';

/** Each write of an execution, and its statement in the run below. */
const writes: Record<string, Pick<Fault, 'statement' | 'nth'>> = {
  'the start of a workflow': { statement: 'workflows.insert' },
  'the record of a step': { statement: 'steps.record' },
  'the beginning of a sleep': { statement: 'steps.record', nth: 2 },
  'the end of a sleep': { statement: 'steps.complete' },
  'the start of a child': { statement: 'workflows.insertChild' },
  'the record of a child’s start': { statement: 'steps.record', nth: 3 },
  'the outcome of a child': { statement: 'workflows.finish' },
  'the outcome of a workflow': { statement: 'workflows.finish', nth: 2 },
};

describeBackends('a connection that breaks during a write', suite, ['postgres']);

function suite(backend: Backend): void {
  const ran: string[] = [];
  const note = (what: string) => run(what, () => void ran.push(what));
  const child = workflow('child', async () => {
    await note('in the child');
    return 7;
  });
  const parent = workflow('parent', async () => {
    await note('before');
    await sleep('1h');
    const result = await child();
    await note('after');
    return result * 6;
  });
  const launch = async () => {
    ran.length = 0;
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const t = await backend.testApp({ database: wire.url, workflows: [parent, child] });
    return { database, wire, t };
  };

  describe.each(Object.entries(writes))('%s', (_, write) => {
    it.each(['cut-before', 'cut-after'] as const)('is made once, and the workflow continues (%s)', async (kind) => {
      const { database, wire, t } = await launch();
      const happened = wire.inject({ ...write, kind });
      const handle = await parent.start();
      expect(await t.clock.runUntil(handle.result())).toBe(42);
      await happened;
      expect([...ran].sort()).toEqual(['after', 'before', 'in the child']);
      const rows = await tamper(database, 'select status, recovery_attempts from workflow_status');
      expect(rows).toEqual(Array(2).fill({ status: 'SUCCESS', recovery_attempts: '1' }));
      const steps = await tamper(database, 'select workflow_uuid, function_id, completion_seq from operation_outputs');
      const own = steps.filter((step) => step.workflow_uuid === handle.id);
      expect(steps).toHaveLength(6);
      expect(own.map((step) => step.function_id).sort()).toEqual([0, 1, 2, 3, 4]);
      expect(own.map((step) => step.completion_seq).sort()).toEqual([0, 1, 2, 3, 4]);
    });
  });

  it('is found committed after the wait for a missing answer ends', async () => {
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const options = { name: 'test', database: wire.url, workflows: [parent, child], logger: silent };
    const app = await launchWith(options, { answerTimeoutMs: 200 });
    onTestFinished(() => app.shutdown());
    ran.length = 0;
    const happened = wire.inject({ statement: 'steps.record', nth: 1, kind: 'black-hole' });
    const once = workflow('once', () => note('before').then(() => 'done'));
    app.register(once);
    expect(await once()).toBe('done');
    await happened;
    expect(ran).toEqual(['before']);
    expect(await tamper(database, 'select 1 from operation_outputs')).toHaveLength(1);
  });
}

describeBackends('a write of an execution that another executor has taken over', takeovers, ['postgres']);

/** The workflow is taken over while the result of a write is unknown: the former owner must not continue. */
function takeovers(backend: Backend): void {
  const seen: string[] = [];
  const work = workflow('work', async () => {
    try {
      await run('first', () => void seen.push('first'));
      seen.push('went on');
      await run('second', () => void seen.push('second'));
    } catch {
      seen.push('catch');
    } finally {
      seen.push('finally');
    }
    return 'done';
  });
  const launch = async (fault: Pick<Fault, 'statement' | 'kind'>): Promise<Fenced> => {
    seen.length = 0;
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const t = await backend.testApp({ database: wire.url, workflows: [work] });
    const takeOver = "update workflow_status set owner_xid = 'other', executor_id = 'other'";
    const happened = wire.inject({ ...fault, meanwhile: () => tamper(database, takeOver) });
    const handle = await work.start();
    await happened;
    // The former owner writes again, reads its state back, and stops.
    await t.clock.advance(0);
    return { database, wire, id: handle.id };
  };

  it.each(['cut-before', 'cut-after'] as const)(
    'fences the record of a step, and the workflow code sees nothing (%s)',
    async (kind) => {
      const { database, wire } = await launch({ statement: 'steps.record', kind });
      expect(seen).toEqual(['first']);
      expect(wire.statements.at(-1)).toBe('steps.states');
      // The new owner reads the steps that were committed before the takeover. No step is written afterwards.
      expect(await tamper(database, 'select 1 from operation_outputs')).toHaveLength(kind === 'cut-after' ? 1 : 0);
      expect(await tamper(database, 'select status, owner_xid from workflow_status')).toEqual([
        { status: 'PENDING', owner_xid: 'other' },
      ]);
    },
  );

  it('fences an outcome', async () => {
    const { database } = await launch({ statement: 'workflows.finish', kind: 'cut-before' });
    expect(seen).toEqual(['first', 'went on', 'second', 'finally']);
    expect(await tamper(database, 'select status, output, owner_xid from workflow_status')).toEqual([
      { status: 'PENDING', output: null, owner_xid: 'other' },
    ]);
  });

  it('does not run a start here that was committed and then taken over', async () => {
    const { database } = await launch({ statement: 'workflows.insert', kind: 'cut-after' });
    expect(seen).toEqual([]);
    expect(await tamper(database, 'select status, owner_xid from workflow_status')).toEqual([
      { status: 'PENDING', owner_xid: 'other' },
    ]);
  });
}

interface Fenced {
  readonly database: string;
  readonly wire: Wire;
  readonly id: string;
}

describeBackends('terminated backends', terminations, ['postgres']);

function terminations(backend: Backend): void {
  it('do not lose or repeat a step of 200 workflows, even if connections are terminated repeatedly', async () => {
    const [flights, steps] = [200, 5];
    const database = await backend.newDatabase();
    const signals = new Signals();
    const work = workflow('work', async () => {
      for (let i = 0; i < steps; i++) {
        await run(`step ${i}`, () => {
          signals.emit('body');
          return delay(Math.random() * 10);
        });
      }
      return 'done';
    });
    await backend.testApp({ database, workflows: [work] });
    const results = Promise.all(Array.from({ length: flights }, () => work()));
    let finished = false;
    void results.then(() => {
      finished = true;
    });
    let rounds = 0;
    for (let bodies = 100; bodies < flights * steps; bodies += 100) {
      await signals.wait('body', bodies);
      // There may be no connection to end at this moment. Once the work is done, no new connection is opened, and a
      // slow machine may be too late to end one.
      while (!finished && (await terminate(database)) === 0);
      if (!finished) rounds++;
    }
    expect(new Set(await results)).toEqual(new Set(['done']));
    expect(rounds).toBeGreaterThan(0);
    expect(signals.count('body')).toBe(flights * steps);
    expect(await tamper(database, 'select distinct status, recovery_attempts from workflow_status')).toEqual([
      { status: 'SUCCESS', recovery_attempts: '1' },
    ]);
    const counted =
      'select count(*)::int as rows, count(distinct workflow_uuid)::int as workflows from operation_outputs';
    expect(await tamper(database, counted)).toEqual([{ rows: flights * steps, workflows: flights }]);
  });
}

/** Ends every connection of the app, as an operator or a failover does. Returns how many there were. */
async function terminate(database: string): Promise<number> {
  const killed = await tamper(
    database,
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name like 'holdfast%'`,
  );
  return killed.length;
}
