import { expect, it } from 'vitest';
import type { SoakEvidence } from './evidence.js';
import { exitCodeOf, type Summary, tableOf, verdictOf } from './report.js';

const evidence: SoakEvidence = {
  workflows: [{ workflow_uuid: 'a', status: 'SUCCESS', recovery_attempts: 2 }],
  steps: [],
  messages: [],
  streams: [],
  events: [],
  counters: [],
  intrusions: [],
  gone: [{ workflow_uuid: 'a', status: 'SUCCESS' }],
  peaks: { queues: {}, partitions: {} },
  entries: [],
};
const good: Summary = {
  seed: '7',
  seconds: 60,
  faults: { kills: 1, stops: 1, takenFromStopped: 1, restarts: 1, cuts: 1, deploys: 1 },
  evidence,
  operator: { cancels: 0, resumes: 0, changes: 0 },
  found: [],
};

it('passes a run in which every fault landed and no promise was broken', () => {
  expect([exitCodeOf(good), verdictOf(good)]).toEqual([0, 'Every promise was kept.']);
  expect(tableOf(good).join('\n')).toMatch(/seed +7\n.*workflows SUCCESS +1\n.*violations +0/s);
});

it.each(['kills', 'stops', 'takenFromStopped', 'restarts', 'cuts', 'deploys'])(
  'calls a run without %s void',
  (kind) => {
    const run: Summary = { ...good, faults: { ...good.faults, [kind]: 0 } };
    expect([exitCodeOf(run), verdictOf(run)]).toEqual([2, expect.stringMatching(`^VOID.*${kind}$`)]);
  },
);

it('calls a run void if no workflow succeeded, or none was run again', () => {
  const run: Summary = { ...good, evidence: { ...evidence, workflows: [] } };
  expect([exitCodeOf(run), verdictOf(run)]).toEqual([2, expect.stringMatching('^VOID.*succeeded.*run again')]);
});

it('calls a run void if retention has deleted nothing', () => {
  const run: Summary = { ...good, evidence: { ...evidence, gone: [] } };
  expect([exitCodeOf(run), verdictOf(run)]).toEqual([2, expect.stringMatching('^VOID.*retention')]);
});

it('fails a run with a violation, even if a fault never landed', () => {
  const run: Summary = { ...good, faults: { ...good.faults, kills: 0 }, found: ['I1: w#0 has two checkpoints'] };
  expect([exitCodeOf(run), verdictOf(run)]).toEqual([1, 'VIOLATIONS: I1 1\n  I1: w#0 has two checkpoints']);
});
