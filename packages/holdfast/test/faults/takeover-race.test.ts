import { expect, it } from 'vitest';
import { context, run, workflow } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { VirtualClock } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { gate, tamper } from '../support/faults.js';
import { withoutTakeoverNews } from '../support/not-listening.js';
import { report } from './child-process.js';

/** HOLDFAST_TAKEOVER_ROUNDS=1000 for the full test. */
const rounds = Number(process.env.HOLDFAST_TAKEOVER_ROUNDS ?? 100);
const seed = process.env.HOLDFAST_FAULT_SEED ?? '1';

/**
 * How a race ended: the new owner found the step recorded, or the old owner was fenced, or the workflow had already
 * ended.
 */
type Winner = 'seen' | 'fenced' | 'over';

describeBackends('a step commit that races a takeover', (backend) => {
  // A takeover notification could stop the old owner between its commit and the delivery of the result.
  withoutTakeoverNews();

  it('either reaches the new owner with the history, or is fenced; never both, never neither', async () => {
    const race = await takeoverRace(backend);
    const random = new SeededRandom(`takeover ${seed}`);
    const tally: Record<Winner, number> = { seen: 0, fenced: 0, over: 0 };
    const isOneSided = (): boolean => Math.min(tally.seen, tally.fenced) <= rounds / 20;
    // Runs more rounds until each side has won often enough, because the machine decides which side is faster.
    let n = 0;
    for (; n < rounds || (n < 10 * rounds && isOneSided()); n++) {
      const turns = Math.floor(random.number() * 5);
      tally[await race(`race-${n}`, n % 2 === 0 ? 'commit' : 'takeover', turns)]++;
    }
    report(
      `takeover race (${backend.name}): ${n} rounds; the new owner saw the step ${tally.seen} times, the old ` +
        `one was fenced ${tally.fenced} times, or had ended ${tally.over} times; HOLDFAST_FAULT_SEED=${seed}`,
    );
    // A race with only one winner would prove nothing.
    expect(isOneSided()).toBe(false);
  });
});

/**
 * Keeps the statement that records the step open for a few milliseconds after it has checked its ownership. Without
 * the lock of that check, a takeover could slip in between.
 */
const slowCheckpoints =
  'create function linger() returns trigger language plpgsql as ' +
  "'begin perform pg_sleep(0.004); return new; end'; " +
  'create trigger linger before insert on operation_outputs for each row ' +
  "when (new.function_name = 'step') execute function linger()";

/** Two executors in this process share one database. The old owner keeps a step open until its race begins. */
async function takeoverRace(backend: Backend) {
  const held = new Map<string, ReturnType<typeof gate>>();
  const begun = new Map<string, ReturnType<typeof gate>>();
  const bodies = new Map<string, string[]>();
  const passed = new Map<string, string[]>();
  const note = (notes: Map<string, string[]>): void => {
    const { workflowId, executorId } = context();
    notes.set(workflowId, [...(notes.get(workflowId) ?? []), executorId]);
  };
  const contested = workflow('contested', async () => {
    const by = await run('step', async () => {
      const { workflowId, executorId } = context();
      note(bodies);
      begun.get(workflowId)?.open(undefined);
      if (executorId === 'old') await held.get(workflowId)?.promise;
      return executorId;
    });
    note(passed);
    await run('next step', () => {});
    return by;
  });
  const common = { database: await backend.newDatabase(), workflows: [contested], clock: new VirtualClock() };
  const old = await backend.testApp({ ...common, executorId: 'old' });
  const next = await backend.testApp({ ...common, executorId: 'new' });
  if (backend.name === 'postgres') await tamper(common.database, slowCheckpoints);

  return async (id: string, first: 'commit' | 'takeover', turns: number): Promise<Winner> => {
    held.set(id, gate());
    begun.set(id, gate());
    await contested.with({ id, app: old.app }).start();
    await begun.get(id)?.promise;
    const moves = [() => held.get(id)?.open(undefined), () => next.app.recovery.recover(['old'])];
    if (first === 'takeover') moves.reverse();
    const begunMoves: unknown[] = [moves[0]?.()];
    for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
    begunMoves.push(moves[1]?.());
    await Promise.all(begunMoves);
    const result = await next.clock.runUntil(next.app.workflows.handle(id).result());
    await next.clock.advance('1s');
    return judge(String(result), bodies.get(id) ?? [], passed.get(id) ?? []);
  };
}

function judge(result: string, bodies: readonly string[], passed: readonly string[]): Winner {
  const oldPassed = passed.includes('old');
  const newRan = bodies.includes('new');
  // The old owner continues past its step exactly if the step was committed. In that case the new owner does not run
  // the step.
  expect({ newRan, result }).toEqual({ newRan: !oldPassed, result: oldPassed ? 'old' : 'new' });
  expect(bodies.filter((each) => each === 'new').length).toBeLessThanOrEqual(1);
  if (!passed.includes('new')) return 'over';
  return oldPassed ? 'seen' : 'fenced';
}
