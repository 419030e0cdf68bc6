import { expect, it } from 'vitest';
import { patch, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate, overTime } from '../support/faults.js';

// The other half of P7: code that does not repeat its history is stopped before it does anything.
describeBackends('P7 non-determinism', (backend) => {
  type Ran = string[];
  const version = 'v1';
  const record = (ran: Ran, name: string) => run(name, () => void ran.push(name));

  function original(ran: Ran) {
    return workflow('wf', async () => {
      await record(ran, 'reserve');
      await record(ran, 'charge');
      await sleep('1h');
      await record(ran, 'ship');
      return 'shipped';
    });
  }

  const changed: Record<string, (ran: Ran) => Promise<unknown>> = {
    renamed: async (ran) => {
      await record(ran, 'reserve');
      await record(ran, 'charge card');
      await sleep('1h');
      await record(ran, 'ship');
    },
    reordered: async (ran) => {
      await record(ran, 'charge');
      await record(ran, 'reserve');
      await sleep('1h');
      await record(ran, 'ship');
    },
    removed: async (ran) => {
      await record(ran, 'reserve');
      await sleep('1h');
      await record(ran, 'ship');
    },
    inserted: async (ran) => {
      await record(ran, 'reserve');
      await record(ran, 'log');
      await record(ran, 'charge');
      await sleep('1h');
      await record(ran, 'ship');
    },
    'all but removed': async () => 'nothing to do any more',
  };

  /** The original sleeps, its process crashes, and the changed code is deployed under the same version. */
  async function redeploy(change: (ran: Ran) => Promise<unknown>) {
    const ran: Ran = [];
    const wf = original(ran);
    const t = await backend.testApp({ workflows: [wf], version });
    await wf.with({ id: 'x' }).start();
    await t.clock.advance('1m');
    expect(ran.splice(0)).toEqual(['reserve', 'charge']);
    const again = await t.restart({ workflows: [workflow('wf', () => change(ran))] });
    await again.clock.advance('2h');
    return { ran, wf, again };
  }

  it.each(Object.keys(changed))('stalls a workflow whose code has a step %s, without a side effect', async (kind) => {
    const { ran, again } = await redeploy(changed[kind] as (ran: Ran) => Promise<unknown>);
    expect(ran).toEqual([]);
    const info = await again.app.workflows.get('x');
    expect(info).toMatchObject({ status: 'STALLED', attempts: 1 });
    const error = await failure(again.app.workflows.handle('x').result());
    expect(error).toMatchObject({ code: 'NON_DETERMINISM' });
    expect(error.message).toContain('"x"');
    expect(error.message).toMatch(/recorded +called now/);
    expect(info?.reason).toContain('its history');
  });

  it('shows recorded next to requested steps, and marks the first difference', async () => {
    const { again } = await redeploy(changed.renamed as (ran: Ran) => Promise<unknown>);
    const { message } = await failure(again.app.workflows.handle('x').result());
    const marked = message.split('\n').filter((line) => line.startsWith('>'));
    expect(marked).toHaveLength(1);
    expect(marked[0]).toMatch(/^> +1 +charge +charge card$/);
    expect(message).toMatch(/\n +0 +reserve +reserve\n/);
    expect(message).toMatch(/resume|patch\(\)|fork/);
  });

  it('cannot be caught by the workflow', async () => {
    const seen: string[] = [];
    const { again } = await redeploy(async () => {
      try {
        await run('another', () => {});
        seen.push('went on');
      } catch {
        seen.push('caught');
      } finally {
        seen.push('finally');
      }
      return 'swallowed';
    });
    expect(seen).toEqual([]);
    expect(await again.app.workflows.get('x')).toMatchObject({ status: 'STALLED' });
  });

  it('uses no attempt, however often the workflow is resumed', async () => {
    const { ran, again } = await redeploy(changed.renamed as (ran: Ran) => Promise<unknown>);
    for (let n = 0; n < 3; n++) {
      await again.app.workflows.resume('x');
      await again.clock.advance('2s');
      expect(await again.app.workflows.get('x')).toMatchObject({ status: 'STALLED' });
    }
    expect((await again.app.workflows.get('x'))?.attempts).toBeLessThanOrEqual(1);
    expect(ran).toEqual([]);
  });

  it('is not tried again automatically, not even by a restart', async () => {
    let bodies = 0;
    const { again } = await redeploy(async () => {
      bodies++;
      await run('another', () => {});
    });
    const third = await again.restart();
    await third.clock.advance('1h');
    expect(bodies).toBe(1);
    expect(await third.app.workflows.get('x')).toMatchObject({ status: 'STALLED' });
  });

  it('ends when the workflow is resumed after the right code was deployed again', async () => {
    const { ran, wf, again } = await redeploy(changed.renamed as (ran: Ran) => Promise<unknown>);
    const third = await again.restart({ workflows: [wf] });
    const handle = await third.app.workflows.resume('x');
    expect(await overTime(third.clock, handle.result())).toBe('shipped');
    expect(ran).toEqual(['ship']);
    const info = await handle.status();
    expect(info).toMatchObject({ status: 'SUCCESS', reason: undefined, error: undefined });
  });

  it('advises a fork that repeats everything from that step on, and the fork does', async () => {
    const { ran, again } = await redeploy(changed.inserted as (ran: Ran) => Promise<unknown>);
    const error = await failure(again.app.workflows.handle('x').result());
    expect(error.message).toContain(
      'app.workflows.fork(id, { fromStep: 1 }). The fork repeats everything that was done from this step on.',
    );
    const fork = await again.app.workflows.fork('x', { fromStep: 1 });
    await again.clock.runUntil(fork.result());
    expect(ran).toEqual(['log', 'charge', 'ship']);
    expect(await again.app.workflows.get('x')).toMatchObject({ status: 'STALLED' });
  });

  it('repeats nothing if the change is guarded by a patch and the workflow is resumed', async () => {
    const { ran, again } = await redeploy(changed.inserted as (ran: Ran) => Promise<unknown>);
    const guarded = workflow('wf', async () => {
      await record(ran, 'reserve');
      if (await patch('log')) await record(ran, 'log');
      await record(ran, 'charge');
      await sleep('1h');
      await record(ran, 'ship');
    });
    const cured = await again.restart({ workflows: [guarded] });
    await cured.app.workflows.resume('x');
    await cured.clock.runUntil(cured.app.workflows.handle('x').result());
    expect(ran).toEqual(['ship']);
  });

  it('leaves the workflow STALLED when it is cancelled, and the workflow can be deleted', async () => {
    const { again } = await redeploy(changed.renamed as (ran: Ran) => Promise<unknown>);
    await again.app.workflows.cancel('x');
    expect(await again.app.workflows.get('x')).toMatchObject({ status: 'STALLED' });
    expect(await again.app.workflows.delete('x')).toBe(1);
  });

  it('stalls only the workflow that does not match; others of the same name continue', async () => {
    const ran: Ran = [];
    const wf = original(ran);
    const t = await backend.testApp({ workflows: [wf], version });
    await wf.with({ id: 'old' }).start();
    await t.clock.advance('1m');
    const newer = workflow('wf', () => changed.renamed?.(ran) ?? Promise.resolve());
    const again = await t.restart({ workflows: [newer] });
    const handle = await newer.with({ id: 'new' }).start();
    await again.clock.runUntil(handle.result());
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS' });
    expect(await again.app.workflows.get('old')).toMatchObject({ status: 'STALLED' });
  });

  it('is not reported for steps appended after the last recorded one', async () => {
    const { ran, again } = await redeploy(async (log) => {
      await record(log, 'reserve');
      await record(log, 'charge');
      await sleep('1h');
      await record(log, 'ship');
      await record(log, 'notify');
      return 'notified';
    });
    expect(await again.app.workflows.handle('x').result()).toBe('notified');
    expect(ran).toEqual(['ship', 'notify']);
  });

  let ticks = 0;
  const unrepeatable: Record<string, () => Promise<unknown>> = {
    'the time': () => run(`at ${Date.now()}-${process.hrtime.bigint()}`, () => 1),
    'a random number': () => run(`lot ${Math.random()}`, () => 1),
    'a variable outside the workflow': () => run(`tick ${ticks++}`, () => 1),
    'a value awaited outside of steps': async () => {
      // The first run takes longer than two steps next to it, and the replay does not.
      const arrival = gate();
      if (ticks++ > 0) arrival.open();
      const configured = arrival.promise.then(() => run('configured', () => 1));
      await run('beside it', () => 1);
      await run('also beside it', () => 1);
      arrival.open();
      await configured;
    },
  };

  it.each(Object.keys(unrepeatable))('is found by testApp({ suspendAtOnce }) if steps depend on %s', async (kind) => {
    ticks = 0;
    const wf = workflow('wf', async () => {
      await unrepeatable[kind]?.();
      for (let n = 0; n < 3; n++) await sleep('10s');
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf], suspendAtOnce: true });
    const handle = await wf.start();
    expect(await failure(overTime(t.clock, handle.result(), 60))).toMatchObject({ code: 'NON_DETERMINISM' });
    expect(await handle.status()).toMatchObject({ status: 'STALLED', attempts: 1 });
  });
});
