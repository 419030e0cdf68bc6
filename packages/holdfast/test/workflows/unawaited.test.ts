import { expect, it } from 'vitest';
import { debouncer, event, patch, run, sleep, stream, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever, gate, recordingLogger, watchUnhandled } from '../support/faults.js';

function declined(): never {
  throw new Error('declined');
}

describeBackends('a call that a workflow does not await', (backend) => {
  it('causes one warning per place when it fails, with the workflow, the step and the error', async () => {
    const logger = recordingLogger();
    const wf = workflow('checkout', async () => {
      void run('charge', declined);
      await run('ship', () => {});
      return 'done';
    });
    await backend.testApp({ workflows: [wf], logger });
    expect(await wf.with({ id: 'order-7' })()).toBe('done');
    await wf.with({ id: 'order-8' })();
    expect(logger.lines).toEqual([
      'Workflow "order-7" (checkout) did not await step 0 "charge", which failed: Error: declined. The workflow ended ' +
        'regardless. Await the call, or append .catch(() => {}) if its failure does not matter. ' +
        'This warning is logged once, not for each workflow.',
    ]);
  });

  it('causes a warning if the workflow returns first, and another one if it fails later', async () => {
    const logger = recordingLogger();
    const late = gate<void>();
    const wf = workflow('checkout', async () => {
      void run('charge', () => late.promise.then(declined));
      void sleep('1h');
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf], logger });
    await wf.with({ id: 'order-7' })();
    expect(logger.lines).toEqual([
      'Workflow "order-7" (checkout) returned without awaiting step 0 "charge", step 1 "DBOS.sleep", which are still ' +
        'running: their results are not recorded. Await them, or append .catch(() => {}) if the workflow need not wait ' +
        'for them. This warning is logged once, not for each workflow.',
    ]);
    late.open();
    await t.clock.advance('1m');
    expect(logger.lines[1]).toMatch(/order-7.* did not await step 0 "charge", which failed: Error: declined\./);
    expect(logger.lines).toHaveLength(2);
  });

  it('causes one warning per place, however many calls there are', async () => {
    const logger = recordingLogger();
    const wf = workflow('checkout', async (orders: number) => {
      await run('count', () => orders);
      for (let n = 0; n < orders; n++) void sleep('1h');
      if (orders % 2 === 0) await run('even', () => {});
    });
    await backend.testApp({ workflows: [wf], logger });
    for (const orders of [3, 4, 7, 8, 12]) await wf(orders);
    expect(logger.lines).toHaveLength(1);
  });

  it('is reported with one full stop after the error text', async () => {
    const logger = recordingLogger();
    const wf = workflow('checkout', async () => {
      void run('charge', () => Promise.reject(new Error('The card was declined.')));
      await sleep('1s');
    });
    const t = await backend.testApp({ workflows: [wf], logger });
    await t.clock.runUntil(wf());
    expect(logger.lines).toEqual([expect.stringContaining('declined. The workflow ended')]);
  });

  const nobody = 'nobody';
  const fails = workflow('fails', async () => declined());
  const progress = event<unknown>('progress');
  const news = stream<unknown>('news');
  const approval = topic<string>('approval');
  const calls: readonly [what: string, call: () => unknown, said: RegExp][] = [
    ['a child', () => fails(), /step 0 "fails", which failed: Error: declined/],
    [
      'the start of a child',
      () => (fails.start as (arg: unknown) => unknown)(forever),
      /step 0 "fails", which failed.* is a function/,
    ],
    ['a batch of children', () => fails.startAll([[forever]] as never), /startAll\(\) of "fails", which failed/],
    ['a message', () => approval.send(nobody, 'yes'), /step 0 "DBOS.send", which failed.*nobody/],
    ['an event', () => progress.set(forever), /step 0 "DBOS.setEvent", which failed/],
    ['a value of a stream', () => news.write(forever), /step 0 "DBOS.writeStream", which failed/],
    ['a read of a stream', () => news.read(nobody).next(), /step 0 "DBOS.readStream", which failed.*nobody/],
    ['a debounced call', () => debouncer(fails).debounce('', '1s'), /did not await debounce\(\), which failed/],
    ['a patch', () => patch(''), /did not await patch\(\), which failed/],
    ['an event in a step', () => run('step', () => void progress.set(forever)), /step 0 "DBOS.setEvent", which failed/],
    [
      'a message in a step',
      () => run('step', () => void approval.send(nobody, 'yes')),
      /step 0 "DBOS.send", which failed.*nobody/,
    ],
    [
      'messages in a step',
      () => run('step', () => void approval.sendAll([{ to: nobody, value: forever as never }])),
      /step 0 "DBOS.send", which failed.*is a function/,
    ],
  ];

  it('causes a warning whatever its kind, without an unhandled rejection', async () => {
    const logger = recordingLogger();
    const unhandled = watchUnhandled();
    const workflows = calls.map(([what, call]) =>
      workflow(what, async () => {
        void call();
        await sleep('1h');
        return 'done';
      }),
    );
    // A replay does not repeat the effects of a recorded step, so it does not learn that they failed.
    const t = await backend.testApp({ workflows: [...workflows, fails], logger, suspendAtOnce: false });
    for (const wf of workflows) await wf.with({ id: `id of ${wf.workflowName}` }).start();
    await t.clock.advance('2h');
    for (const [what, , said] of calls) {
      expect(await t.app.workflows.handle(`id of ${what}`).result()).toBe('done');
      const about = logger.matching(said).filter((line) => line.startsWith(`Workflow "id of ${what}"`));
      expect({ what, about }).toEqual({ what, about: [expect.any(String)] });
    }
    expect(unhandled).toEqual([]);
  });

  it('causes a warning if it is a child that continues without its parent', async () => {
    const logger = recordingLogger();
    const child = workflow('child', () => sleep('1h'));
    const parent = workflow('parent', async () => void child());
    await backend.testApp({ workflows: [child, parent], logger });
    await parent();
    expect(logger.lines.join()).toMatch(
      /without awaiting step 0 "child", which is still running: its result is not recorded/,
    );
  });
});

describeBackends('no warning is given', (backend) => {
  const slow = () => run('slow', forever);
  const bad = () => run('bad', declined);
  const bodies: readonly [when: string, body: () => Promise<unknown>][] = [
    ['for the loser of a race', () => Promise.race([slow(), run('quick', () => 1)])],
    [
      'for a failed loser of a race',
      async () => [await Promise.race([run('quick', () => 1), bad()]), await sleep('1s')],
    ],
    ['for what any() passes over', () => Promise.any([bad(), slow(), run('quick', () => 1)])],
    ['for allSettled', () => Promise.allSettled([bad(), bad()]).then((all) => all.length)],
    ['for the others of an all() that failed', () => Promise.all([bad(), slow(), bad()]).catch(() => 1)],
    ['for a call with a catch', async () => void bad().catch(() => {})],
    ['for a call with a catch that is left behind', async () => void slow().catch(() => {})],
    ['for a call with both handlers', async () => void bad().then(null, () => {})],
    ['for a rejection that is taken up late', () => takenUpLate(bad())],
    ['for a call that is returned', bad],
    ['for what a failure keeps the code from awaiting', () => orderly(slow(), bad())],
    ['for a helper that awaits', () => Promise.race([(async () => slow())(), run('quick', () => 1)])],
  ];

  it('for calls that the code has used, in a first run and in a replay', async () => {
    const logger = recordingLogger();
    const workflows = bodies.map(([when, body]) =>
      workflow(when, async () => {
        const value = await body();
        await sleep('1h');
        return value ?? null;
      }),
    );
    const t = await backend.testApp({ workflows, logger });
    for (const wf of workflows) await wf.with({ id: wf.workflowName }).start();
    await t.clock.advance('30m');
    const revived = await t.restart();
    await revived.clock.advance('2h');
    for (const [when] of bodies) {
      const { status } = await revived.app.workflows.handle(when).status();
      expect({ when, status }).toEqual({ when, status: expect.stringMatching(/^(SUCCESS|ERROR)$/) });
    }
    expect(logger.matching(/did not await|without awaiting/)).toEqual([]);
  });

  it('for a workflow that is cancelled', async () => {
    const logger = recordingLogger();
    const wf = workflow('wf', async () => {
      void run('slow', forever);
      await sleep('1h');
    });
    const t = await backend.testApp({ workflows: [wf], logger });
    const handle = await wf.start();
    await t.clock.advance('1m');
    await handle.cancel();
    expect((await failure(handle.result())).code).toBe('WORKFLOW_CANCELLED');
    expect(logger.lines).toEqual([]);
  });

  async function takenUpLate(call: Promise<unknown>): Promise<unknown> {
    await sleep('1m');
    return call.catch(() => 'taken up');
  }

  async function orderly(first: Promise<unknown>, second: Promise<unknown>): Promise<unknown> {
    await second;
    return first;
  }
});
