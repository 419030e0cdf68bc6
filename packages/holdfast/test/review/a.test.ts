import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { context, random, run, sleep, uuid, workflow } from '../../src/index.js';
import { openWire } from '../storage/wire.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, gate, isSettled, overTime, tamper } from '../support/faults.js';

function unhandled() {
  const seen: unknown[] = [];
  const before = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection');
  const keep = (e: unknown) => void seen.push(e);
  process.on('unhandledRejection', keep);
  onTestFinished(() => {
    process.removeListener('unhandledRejection', keep);
    for (const each of before) process.on('unhandledRejection', each);
  });
  return seen;
}

describeBackends('review', (backend) => {
  it('S2 child call promise picked up late is no unhandled rejection', async () => {
    const seen = unhandled();
    const child = workflow('child', async () => {
      throw new Error('child failed');
    });
    const parent = workflow('parent', async () => {
      const p = child();
      await sleep('1m');
      return p.catch((e: Error) => e.message);
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const h = await parent.start();
    expect(await t.clock.runUntil(h.result())).toBe('child failed');
    expect(seen).toEqual([]);
  });
  it('S2b cancel with an un-awaited child call', async () => {
    const seen = unhandled();
    const child = workflow('child', async () => {
      await sleep('1d');
    });
    const parent = workflow('parent', async () => {
      const p = child();
      await sleep('1h');
      await p;
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const h = await parent.start();
    await t.clock.advance('1m');
    await h.cancel();
    await failure(h.result());
    await t.clock.advance('1m');
    expect(seen).toEqual([]);
  });
  it('S2c un-awaited start() of a child that is refused', async () => {
    const seen = unhandled();
    const child = workflow('child', async (_f: unknown) => {});
    const parent = workflow('parent', async () => {
      const p = child.start(() => {});
      await sleep('1h');
      return p.then(
        () => 'ok',
        (e) => e.code,
      );
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const h = await parent.start();
    expect(await t.clock.runUntil(h.result())).toBe('UNSERIALIZABLE');
    expect(seen).toEqual([]);
  });
  it('S19 removed concurrent step stalls instead of hanging', async () => {
    const ran: string[] = [];
    const g = gate();
    const wf = workflow('wf', async () => {
      await Promise.all([run('a', () => g.promise), run('b', () => void ran.push('b'))]);
      return 'x';
    });
    const t = await backend.testApp({ workflows: [wf], version: 'v' });
    await wf.with({ id: 'x' }).start();
    await t.clock.advance('1m');
    const wf2 = workflow('wf', async () => {
      await run('a', () => void ran.push('a'));
      return 'y';
    });
    const again = await t.restart({ workflows: [wf2] });
    await again.clock.advance('2h');
    console.log('S19', backend.name, ran, (await again.app.workflows.get('x'))?.status);
    expect((await again.app.workflows.get('x'))?.status).toBe('STALLED');
  });
  it('S41 handle of another app inside a workflow', async () => {
    const other = workflow('other', async () => 'other result');
    const b = await backend.testApp({ name: 'b', workflows: [other] });
    const h = await other.start();
    await b.clock.runUntil(h.result());
    const wf = workflow('wf', async () => {
      const handle = b.app.workflows.handle(h.id);
      return [(await handle.status()).status, await handle.result()];
    });
    const a = await backend.testApp({ name: 'a', workflows: [wf] });
    const r = await wf.start();
    expect(await a.clock.runUntil(r.result())).toEqual(['SUCCESS', 'other result']);
  });
  it('S41b app option inside a workflow is not ignored', async () => {
    const child = workflow('child', async () => context().executorId);
    const b = await backend.testApp({ name: 'b', executorId: 'bb', workflows: [child] });
    const wf = workflow('wf', async () =>
      child
        .with({ app: b.app })()
        .catch((e) => e.code),
    );
    const a = await backend.testApp({ name: 'a', executorId: 'aa', workflows: [wf, child] });
    const r = await wf.start();
    expect(await a.clock.runUntil(r.result())).not.toBe('aa');
  });
  it('S90 huge maxRecoveryAttempts', async () => {
    const wf = workflow(
      'wf',
      async () => {
        await sleep('1h');
        return 1;
      },
      { maxRecoveryAttempts: 1e12 },
    );
    const t = await backend.testApp({ workflows: [wf], version: 'v' });
    const h = await wf.with({ id: 'x' }).start();
    const again = await t.restart();
    expect(await overTime(again.clock, again.app.workflows.handle(h.id).result(), 4000)).toBe(1);
  });
  it('S92 workflow named DBOS.sleep', async () => {
    expect(() => workflow('DBOS.sleep', async () => {})).toThrow(/reserved/);
  });
  it('S39 management after shutdown is APP_CLOSED', async () => {
    const wf = workflow('wf', async () => 1);
    const t = await backend.testApp({ workflows: [wf] });
    const h = await wf.start();
    await t.clock.runUntil(h.result());
    await t.app.shutdown();
    const codes = [];
    for (const f of [
      () => h.status(),
      () => h.cancel(),
      () => t.app.workflows.list(),
      () => t.app.workflows.get(h.id),
      () => t.app.workflows.steps(h.id),
      () => t.app.workflows.resume(h.id),
      () => t.app.versions.list(),
      () => h.result(),
    ]) {
      codes.push((await failure(f())).code ?? 'raw');
    }
    expect(codes).toEqual(codes.map(() => 'APP_CLOSED'));
  });
  it('S42 offset', async () => {
    const t = await backend.testApp({});
    expect((await failure(t.app.workflows.list({ offset: -1 }))).code).toBe('INVALID_OPTION');
  });
  it('S53 schema of a child that uses uuid()', async () => {
    const ids: string[][] = [];
    const child = workflow('child', async (x: unknown) => x, {
      input: { '~standard': { version: 1, vendor: 't', validate: () => ({ value: uuid() }) } } as never,
    });
    const parent = workflow('parent', async () => {
      await child('');
      const own = [uuid()];
      ids.push(own);
      await sleep('1h');
    });
    const t = await backend.testApp({ workflows: [child, parent], version: 'v' });
    const h = await parent.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle(h.id).result());
    expect(ids[0]).toEqual(ids[1]);
  });
  it('S53b abort listener of one workflow in scope of its canceller', async () => {
    const seen: unknown[] = [];
    const victim = workflow('victim', async () => {
      context().signal.addEventListener('abort', () => {
        try {
          seen.push(context().workflowName);
        } catch (e) {
          seen.push((e as { code: string }).code);
        }
      });
      await sleep('1d');
    });
    const killer = workflow('killer', async (id: string) => {
      await t.app.workflows.handle(id).cancel();
      return 1;
    });
    const t = await backend.testApp({ workflows: [victim, killer] });
    const h = await victim.start();
    await t.clock.advance('1m');
    const k = await killer.start(h.id);
    await t.clock.runUntil(k.result());
    expect(seen).not.toEqual(['killer']);
  });
  it('S55 resume brings back a child whose result timed out before', async () => {
    const child = workflow('child', async () => {
      await sleep('1d');
      return 'c';
    });
    const parent = workflow('parent', async () => {
      const h = await child.start();
      await h.result({ timeout: '1m' }).catch(() => {});
      return h.result();
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const h = await parent.start();
    await t.clock.advance('5m');
    await h.cancel();
    await failure(h.result());
    const again = await t.app.workflows.resume(h.id);
    expect(await overTime(t.clock, again.result(), 200000)).toBe('c');
  });
  it('S65 start waiting on an async schema while the app closes', async () => {
    const g = gate();
    const wf = workflow('wf', async (x: unknown) => x, {
      input: {
        '~standard': {
          version: 1,
          vendor: 't',
          validate: async (v: unknown) => {
            await g.promise;
            return { value: v };
          },
        },
      } as never,
    });
    const t = await backend.testApp({ workflows: [wf] });
    const started = wf.start(1).then(
      () => 'started',
      (e) => e.code,
    );
    await t.app.shutdown();
    g.open();
    const r = await Promise.race([started, new Promise((r) => setTimeout(r, 500, 'never'))]);
    expect(r).toBe('APP_CLOSED');
  });
});
