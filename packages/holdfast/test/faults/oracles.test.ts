import { expect, it } from 'vitest';
import { VirtualClock } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { World } from './interpreter.js';
import type { Entry } from './ledger.js';
import { allows } from './model.js';
import type { Program } from './programs.js';
import { busiestStretch, installGauge, openGauge, overlaps } from './queue-gauge.js';
import { divergencesOf } from './traces.js';

/**
 * Oracles other than those of the ledger (ledger.test.ts) and of the soak test (../soak/checks.test.ts). Each must
 * report a planted fault.
 */
const step = (name: string, fails = false): Program => ({ op: 'step', name, fails });
let written = 0;
const entry = (kind: Entry['kind'], workflowId: string, by: string, detail: string): Entry =>
  ({ id: written++, kind, workflowId, by, detail, stepNumber: null }) as unknown as Entry;

it('the ledger gauge counts concurrent bodies per queue and process, without those of killed processes', () => {
  const [one, two] = [entry('begin', 'a', 'p1', 'q'), entry('begin', 'b', 'p1', 'q')];
  const places = (detail: string): readonly string[] => [detail];
  expect(overlaps([one, two], places)).toEqual({ places: { q: 2 }, processes: { 'q in p1': 2 } });
  expect(overlaps([one, entry('finish', 'a', 'p1', 'q'), two], places).places).toEqual({ q: 1 });
  expect(overlaps([one, entry('killed', '', 'fleet', 'p1'), entry('begin', 'b', 'p2', 'q')], places).places).toEqual({
    q: 1,
  });
});

it('the rate gauge reports the most starts in any interval, wherever it begins', () => {
  expect([busiestStretch([0, 90, 110, 180], 100), busiestStretch([0, 100, 200], 100)]).toEqual([3, 1]);
});

it('the model rejects outcomes that a program cannot have', () => {
  const both: Program = { op: 'all', parts: [step('a'), step('b')] };
  expect([allows(both, { ok: ['a', 'b'] }), allows(both, { ok: ['b', 'a'] }), allows(both, { error: 'a' })]).toEqual([
    true,
    false,
    false,
  ]);
  const race: Program = { op: 'race', parts: [step('a'), step('b', true)] };
  expect([allows(race, { ok: 'a' }), allows(race, { error: 'b' }), allows(race, { ok: 'b' })]).toEqual([
    true,
    true,
    false,
  ]);
});

it('traces that differ are reported, and so is a replay of a finished history that ends early', () => {
  const whole = ['calls a', 'a: 1', 'calls b'];
  const found = (...traces: string[][]) => divergencesOf(new Map([['w', traces]]), 'w').length;
  expect(found(['calls a'], whole, whole)).toBe(0);
  expect(found(whole, ['calls a'])).toBe(1);
  expect(found(['calls b'], whole, whole)).toBe(1);
});

describeBackends('an oracle in the database', (backend) => {
  it('reports more workflows claimed at once than a queue allows', async () => {
    const database = await backend.newDatabase();
    await (await installGauge(database)).close();
    for (const id of ['a', 'b', 'c']) {
      await tamper(
        database,
        `insert into workflow_status (workflow_uuid, status, queue_name, owner_xid) values ('${id}', 'ENQUEUED', 'q', '${id}')`,
      );
    }
    await tamper(database, "update workflow_status set status = 'PENDING' where workflow_uuid in ('a', 'b')");
    // A suspended workflow holds no slot.
    await tamper(database, "update workflow_status set resting_owner = owner_xid where workflow_uuid = 'a'");
    await tamper(database, "update workflow_status set status = 'PENDING' where workflow_uuid = 'c'");
    const gauge = await openGauge(database);
    const { queues, claims } = await gauge.peaks();
    await gauge.close();
    expect([queues, claims]).toEqual([{ q: 2 }, backend.name === 'sqlite' ? 3 : 2]);
  });

  it('reports a body of a random program that begins after its checkpoint', async () => {
    const world = new World();
    world.clock = new VirtualClock();
    const t = await backend.testApp({ workflows: [world.root, world.child], clock: world.clock });
    world.noteCommitted('w', 'a');
    const handle = await world.root.with({ id: 'w', app: t.app }).start(step('a'));
    expect(await world.clock.runUntil(handle.result())).toEqual({ ok: 'a' });
    expect(world.violations).toEqual(['a began after its checkpoint']);
  });
});
