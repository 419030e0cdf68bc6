import { expect, it } from 'vitest';
import { context, FatalError, isHoldfastError, run, sleep, step, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever, gate, recordingLogger } from '../support/faults.js';

describeBackends('step retries and timeouts', (backend) => {
  /** Runs a step that fails the given number of times. Returns the instants of its attempts, relative to the first. */
  async function attemptTimes(failures: number, retries: Parameters<typeof run>[2]) {
    const times: number[] = [];
    const wf = workflow('wf', () =>
      run(
        'flaky',
        () => {
          times.push(t.clock.now());
          if (times.length <= failures) throw new Error(`failure ${times.length}`);
          return times.length;
        },
        retries,
      ),
    );
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    const result = await t.clock.runUntil(handle.result().catch((error: Error) => error));
    return { times: times.map((at) => at - (times[0] as number)), result };
  }

  it('retries a failing step with growing pauses until it succeeds', async () => {
    const { times, result } = await attemptTimes(3, { retries: { max: 5, initial: '1s', factor: 3, jitter: 0 } });
    expect(times).toEqual([0, 1000, 4000, 13_000]);
    expect(result).toBe(4);
  });

  it('limits every pause to maxDelay', async () => {
    const { times } = await attemptTimes(4, {
      retries: { max: 4, initial: '1s', factor: 10, maxDelay: '5s', jitter: 0 },
    });
    expect(times).toEqual([0, 1000, 6000, 11_000, 16_000]);
  });

  it('shortens pauses randomly, by no more than the jitter', async () => {
    const { times } = await attemptTimes(20, { retries: { max: 20, initial: '10s', factor: 1, jitter: 0.5 } });
    const pauses = times.slice(1).map((at, n) => at - (times[n] as number));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(5000);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(10_000);
    expect(new Set(pauses).size).toBeGreaterThan(10);
  });

  it('starts with 200 ms and doubles the pause, less up to a quarter, if only a number is given', async () => {
    const { times, result } = await attemptTimes(9, { retries: 2 });
    expect(times).toHaveLength(3);
    expect(times[1]).toBeGreaterThanOrEqual(150);
    expect(times[1]).toBeLessThanOrEqual(200);
    expect((times[2] as number) - (times[1] as number)).toBeGreaterThanOrEqual(300);
    expect(result).toMatchObject({ message: 'failure 3' });
  });

  it('fails at once without retries', async () => {
    const { times, result } = await attemptTimes(1, {});
    expect(times).toEqual([0]);
    expect(result).toMatchObject({ message: 'failure 1' });
  });

  it('does not retry an error that retryIf excludes', async () => {
    const seen: unknown[] = [];
    const retryIf = (error: unknown) => {
      seen.push((error as Error).message);
      return (error as Error).message !== 'failure 2';
    };
    const { times, result } = await attemptTimes(9, { retries: { max: 5, initial: 1, retryIf } });
    expect(times).toHaveLength(2);
    expect(seen).toEqual(['failure 1', 'failure 2']);
    expect(result).toMatchObject({ message: 'failure 2' });
  });

  it('records the error of the step if retryIf itself throws, and does not run the step again', async () => {
    let ran = 0;
    const retryIf = () => {
      throw new Error('broken filter');
    };
    const body = () => {
      ran++;
      throw new Error('the real one');
    };
    const wf = workflow('wf', async () => {
      const error = await failure(run('step', body, { retries: { max: 3, retryIf } }));
      await sleep('1h');
      return error.message;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe('the real one');
    expect(ran).toBe(1);
  });

  it.each<[string, () => Promise<boolean>]>([
    ['resolves', async () => true],
    ['rejects', () => Promise.reject(new Error('broken filter'))],
  ])('does not retry, and says why, if retryIf returns a promise that %s', async (_, retryIf) => {
    let ran = 0;
    const wf = workflow('wf', () =>
      run('step', () => Promise.reject(new Error(`failure ${++ran}`)), {
        retries: { max: 3, initial: 1, retryIf: retryIf as unknown as () => boolean },
      }),
    );
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [wf], logger });
    expect((await failure(t.clock.runUntil(wf()))).message).toBe('failure 1');
    expect(logger.matching(/retryIf of step "step" returned a promise/)).toHaveLength(1);
  });

  it('does not retry a FatalError, whatever the retries', async () => {
    let ran = 0;
    const charge = step(
      'charge',
      () => {
        ran++;
        throw new FatalError('card expired', { details: { card: 7 } });
      },
      { retries: 10 },
    );
    const wf = workflow('wf', () => charge());
    await backend.testApp({ workflows: [wf] });
    expect(await failure(wf())).toMatchObject({ code: 'FATAL', name: 'FatalError', message: 'card expired' });
    expect(ran).toBe(1);
  });

  it('gives each attempt its number', async () => {
    const attempts: number[] = [];
    const wf = workflow('wf', () =>
      run(
        'flaky',
        () => {
          attempts.push(context().attempt);
          if (attempts.length < 3) throw new Error('again');
        },
        { retries: { max: 5, initial: 0 } },
      ),
    );
    const t = await backend.testApp({ workflows: [wf] });
    await t.clock.runUntil(wf());
    expect(attempts).toEqual([1, 2, 3]);
  });

  it('ends an attempt at its timeout: its signal aborts, and the attempt counts as failed', async () => {
    const signals: AbortSignal[] = [];
    const wf = workflow('wf', () =>
      run(
        'hangs twice',
        () => {
          signals.push(context().signal);
          return signals.length < 3 ? forever() : 'third time';
        },
        { timeout: '10s', retries: { max: 5, initial: '1s', factor: 1, jitter: 0 } },
      ),
    );
    const t = await backend.testApp({ workflows: [wf] });
    const before = t.clock.now();
    const handle = await wf.start();
    expect(await t.clock.runUntil(handle.result())).toBe('third time');
    expect(t.clock.now() - before).toBe(22_000);
    expect(signals.map(({ reason }) => isHoldfastError(reason, 'STEP_TIMEOUT'))).toEqual([true, true, false]);
  });

  it('fails with STEP_TIMEOUT when the last attempt times out, and ignores its late outcome', async () => {
    const late = gate();
    const wf = workflow('wf', async () => {
      const error = await failure(run('hangs', () => late.promise, { timeout: '10s' }));
      await sleep('1h');
      return error;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('11s');
    // Vitest fails the run if this becomes an unhandled rejection.
    late.fail(new Error('thrown after the timeout'));
    await t.clock.advance('1m');
    const error = await t.clock.runUntil(handle.result());
    expect(error).toMatchObject({ code: 'STEP_TIMEOUT', details: { step: 'hangs', timeoutMs: 10_000 } });
    expect(error.message).toMatch(/context\(\)\.signal/);
  });

  it('ignores a late success after the timeout', async () => {
    const late = gate<string>();
    const wf = workflow('wf', () => run('hangs', () => late.promise, { timeout: '10s' }));
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('10s');
    late.open('too late');
    expect(await failure(handle.result())).toMatchObject({ code: 'STEP_TIMEOUT' });
    expect(await handle.status()).toMatchObject({ status: 'ERROR' });
  });

  it('does not count an attempt that was not recorded at a crash, and counts earlier attempts', async () => {
    const attempts: number[] = [];
    let hang = true;
    const wf = workflow('wf', () =>
      run(
        'flaky',
        () => {
          attempts.push(context().attempt);
          if (hang && attempts.length === 2) return forever();
          if (attempts.length < 5) throw new Error('again');
          return undefined;
        },
        { retries: { max: 3, initial: 10, jitter: 0 } },
      ),
    );
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    hang = false;
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle(id).result());
    expect(attempts).toEqual([1, 2, 2, 3, 4]);
  });
});
