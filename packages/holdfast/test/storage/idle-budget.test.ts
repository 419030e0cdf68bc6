import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { type Queue, type QueueOptions, queue, workflow } from '../../src/index.js';
import { report } from '../faults/child-process.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { openWire } from './wire.js';

/** Queues of every kind: the cost of watching them must not depend on their number. */
const kinds: QueueOptions[] = [
  {},
  { concurrency: 5 },
  { workerConcurrency: 2 },
  { rateLimit: { max: 10, per: '1s' } },
  { partition: { concurrency: 1 } },
];
const queues: Queue[] = Array.from({ length: 50 }, (_, i) => queue(`queue ${i}`, kinds[i % kinds.length]));
const perSecond = 2;

describeBackends('an idle app with 50 queues', (backend) => {
  it('sends fewer than 2 statements a second in all', async () => {
    const { t, wire } = await launch(backend);
    const before = t.statements.length;
    // The steps are shorter than the interval of any service, so that no service is skipped.
    for (let step = 0; step < 600; step++) await t.clock.advance(100);
    const made = [...t.statements.slice(before)];
    // Several connections send statements at the same time, so their order differs.
    if (wire) expect(wire.statements.filter(isOurs).sort()).toEqual([...made].sort());
    report(`idle app with 50 queues (${backend.name}): ${made.length} statements in 60 s: ${tally(made)}`);
    expect(made.length).toBeGreaterThan(0);
    expect((wire ? wire.statements : made).length).toBeLessThan(60 * perSecond);
  });

  it('sends fewer than 2 statements a second in real time, next to another app, after some work', async () => {
    const first = await launch(backend, 'real');
    const second = await launch(backend, 'real', first.database, 'second');
    await first.work.with({ queue: queues[0] as Queue, app: first.t.app })();
    await first.work.with({ queue: queues[1] as Queue, app: second.t.app })();
    // The follow-up work of these workflows has ended.
    await delay(500);
    const before = [first, second].map(({ t }) => t.statements.length);
    for (const { wire } of [first, second]) wire?.reset();
    const seconds = 6;
    await delay(seconds * 1_000);
    for (const [i, { t, wire }] of [first, second].entries()) {
      const made = wire ? [...wire.statements] : t.statements.slice(before[i]);
      report(`idle app ${i + 1} of 2 (${backend.name}): ${made.length} statements in ${seconds} s: ${tally(made)}`);
      expect(made.length).toBeGreaterThan(0);
      // A service with an interval of five seconds may run twice in these six seconds.
      expect(made.length).toBeLessThan((seconds + 5) * perSecond);
    }
  });
});

async function launch(backend: Backend, clock?: 'real', given?: string, executorId = 'first') {
  const database = given ?? (await backend.newDatabase());
  const wire = backend.name === 'postgres' ? await openWire(database) : undefined;
  const work = launched.get(database) ?? workflow('work', async () => 'done');
  launched.set(database, work);
  const options = { database: wire?.url ?? database, executorId, version: 'v1', workflows: [work], queues };
  const t = await backend.testApp({ ...options, ...(clock && { clock }) });
  wire?.reset();
  return { t, wire, work, database };
}

/** One workflow for all apps of a database. */
const launched = new Map<string, ReturnType<typeof workflow<[], string>>>();

/** Excludes the settings of new connections and the LISTEN statements. */
function isOurs(statement: string): boolean {
  return !/^(set|listen) /.test(statement);
}

function tally(statements: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of statements) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, n]) => `${name.slice(0, 40)} ${n}`).join(', ');
}
