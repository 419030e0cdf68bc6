import { expect, it } from 'vitest';
import { atMostOneCheckpoint, noHoles } from '../faults/invariants.js';
import type { Entry } from '../faults/ledger.js';
import type { SoakEvidence } from './evidence.js';
import { withoutUndone } from './restore.js';

const entry = (kind: string, workflowId: string, stepNumber: number | null = null, detail: string | null = null) =>
  ({ seq: 0, kind, workflowId, stepNumber, by: 'test', detail }) as Entry;
const undone = { families: ['undone-1'], kept: ['undone-1#0'] };
const restored = entry('restored', '', null, JSON.stringify(undone));
const evidence = (...entries: Entry[]) => withoutUndone({ entries, steps: [] } as unknown as SoakEvidence);
const begun = (...entries: Entry[]) => atMostOneCheckpoint(evidence(...entries)).length;

it('observations of a family before its restore do not count, and observations of other families do', () => {
  const before = ['undone-1', 'undone-1.c0', 'other-2'].map((id) => entry('ack', id));
  const found = evidence(...before, restored, entry('result', 'undone-1'));
  expect(found.entries.map(({ kind, workflowId }) => `${kind} ${workflowId}`)).toEqual([
    'ack other-2',
    'committed undone-1',
    'result undone-1',
  ]);
  expect([...(found.undone ?? [])]).toEqual(['undone-1']);
});

it('a step that the restored record lacks may begin again, but a recorded step may not', () => {
  const committed = [0, 1].map((n) => entry('committed', 'undone-1', n));
  expect(begun(...committed, restored, entry('start', 'undone-1', 1))).toBe(0);
  expect(begun(...committed, restored, entry('start', 'undone-1', 0))).toBe(1);
  expect(begun(entry('committed', 'other-2', 1), restored, entry('start', 'other-2', 1))).toBe(1);
});

it('a record with a hole is reported', () => {
  const step = (n: number, seq: number, after: number) => ({
    workflow_uuid: 'w',
    function_id: n,
    completion_seq: seq,
    requested_after: after,
  });
  const holesIn = (...steps: object[]) => noHoles({ steps, workflows: [], entries: [] } as never);
  expect(holesIn(step(0, 0, -1), step(1, 1, 0))).toEqual([]);
  expect(holesIn(step(0, 0, -1), step(2, 2, 1))).toEqual(['holes: w#2 came after result 1, which is gone']);
});
