import { expect, it } from 'vitest';
import { deprecatePatch, patch, run, sleep, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever } from '../support/faults.js';

describeBackends('patch', (backend) => {
  const version = 'v1';
  type Body = (ran: string[]) => Promise<unknown>;
  const record = (ran: string[], name: string) => run(name, () => void ran.push(name));

  const old: Body = async (ran) => {
    await record(ran, 'reserve');
    await sleep('1h');
    await record(ran, 'charge');
    return 'old way';
  };
  const patched: Body = async (ran) => {
    await record(ran, 'reserve');
    if (await patch('check stock')) await record(ran, 'check stock');
    await sleep('1h');
    await record(ran, 'charge');
    return 'either way';
  };
  const deprecated: Body = async (ran) => {
    await record(ran, 'reserve');
    await deprecatePatch('check stock');
    await record(ran, 'check stock');
    await sleep('1h');
    await record(ran, 'charge');
    return 'new way';
  };
  const cleaned: Body = async (ran) => {
    await record(ran, 'reserve');
    await record(ran, 'check stock');
    await sleep('1h');
    await record(ran, 'charge');
    return 'clean';
  };

  async function begin(body: Body, ran: string[]): Promise<TestApp> {
    const wf = workflow('wf', () => body(ran));
    const t = await backend.testApp({ workflows: [wf], version });
    await wf.with({ id: 'x' }).start();
    await t.clock.advance('1m');
    return t;
  }

  async function goOn(t: TestApp, body: Body, ran: string[]): Promise<unknown> {
    const again = await t.restart({ workflows: [workflow('wf', () => body(ran))] });
    return again.clock.runUntil(again.app.workflows.handle('x').result());
  }

  it('is false for a workflow that passed the point with the old code', async () => {
    const ran: string[] = [];
    const t = await begin(old, ran);
    expect(await goOn(t, patched, ran)).toBe('either way');
    expect(ran).toEqual(['reserve', 'charge']);
  });

  it('is true for a new workflow, and stays true in every replay', async () => {
    const ran: string[] = [];
    const t = await begin(patched, ran);
    expect(await goOn(t, patched, ran)).toBe('either way');
    expect(ran).toEqual(['reserve', 'check stock', 'charge']);
  });

  it('is true for a workflow of the old code that had not reached the point', async () => {
    const ran: string[] = [];
    const hang: Body = async (log) => {
      log.push('asked');
      await run('reserve', () => forever());
    };
    const t = await begin(hang, ran);
    expect(await goOn(t, patched, ran)).toBe('either way');
    expect(ran).toEqual(['asked', 'reserve', 'check stock', 'charge']);
  });

  it('can be deprecated: workflows with a marker and new ones without it both continue', async () => {
    const ran: string[] = [];
    const t = await begin(patched, ran);
    expect(await goOn(t, deprecated, ran)).toBe('new way');
    expect(ran).toEqual(['reserve', 'check stock', 'charge']);
    const fresh: string[] = [];
    const fromDeprecated = await begin(deprecated, fresh);
    expect(await goOn(fromDeprecated, cleaned, fresh)).toBe('clean');
    expect(fresh).toEqual(['reserve', 'check stock', 'charge']);
  });

  it('is false if the next step of the old code was still running at the crash', async () => {
    const ran: string[] = [];
    let hang = true;
    const slow = (log: string[]) =>
      run('slow', () => {
        log.push('slow');
        return hang ? forever() : undefined;
      });
    const t = await begin(async (log) => {
      await Promise.all([slow(log), record(log, 'fast')]);
    }, ran);
    expect(ran).toEqual(['slow', 'fast']);
    hang = false;
    const result = await goOn(
      t,
      async (log) => {
        if (await patch('audit')) await record(log, 'audit');
        await Promise.all([slow(log), record(log, 'fast')]);
        return 'done';
      },
      ran,
    );
    expect(result).toBe('done');
    expect(ran).toEqual(['slow', 'fast', 'slow']);
  });

  it('distinguishes two changes at the same place', async () => {
    const ran: string[] = [];
    const t = await begin(patched, ran);
    const result = await goOn(
      t,
      async (log) => {
        await record(log, 'reserve');
        if (await patch('check stock')) await record(log, 'check stock');
        if (await patch('check credit')) await record(log, 'check credit');
        await sleep('1h');
        if (await patch('notify')) await record(log, 'notify');
        await record(log, 'charge');
        return 'twice patched';
      },
      ran,
    );
    expect(result).toBe('twice patched');
    expect(ran).toEqual(['reserve', 'check stock', 'notify', 'charge']);
  });

  it('works only in a workflow function', async () => {
    expect(await failure(patch('x'))).toMatchObject({ code: 'NOT_IN_WORKFLOW' });
    expect(await failure(deprecatePatch('x'))).toMatchObject({ code: 'NOT_IN_WORKFLOW' });
    const wf = workflow('wf', async () => [
      (await failure(run('step', () => patch('x')))).code,
      (await failure(patch(''))).code,
    ]);
    await backend.testApp({ workflows: [wf] });
    expect(await wf()).toEqual(['UNSUPPORTED_CALL', 'INVALID_NAME']);
  });
});
