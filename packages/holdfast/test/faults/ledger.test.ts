import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  ackedStartsEnd,
  atMostOneCheckpoint,
  type Evidence,
  observersAgree,
  outcomesStay,
  recordedStepsTookEffect,
  violations,
} from './invariants.js';
import { Ledger } from './ledger.js';
import { observe, type Row } from './rows.js';

let folder: string;
let ledger: Ledger;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-ledger-'));
  ledger = new Ledger(join(folder, 'ledger.sqlite'));
});
afterEach(() => {
  ledger.close();
  rmSync(folder, { recursive: true });
});

const done: Row = {
  workflow_uuid: 'w',
  status: 'SUCCESS',
  output: '{"json":"fine"}',
  error: null,
  completed_at: 7,
};
const pending: Row = { ...done, status: 'PENDING', output: null, completed_at: null };
const charge: Row = {
  workflow_uuid: 'w',
  function_id: 0,
  function_name: 'charge',
  completion_seq: 0,
  child_workflow_id: null,
};

/** A history in which everything went well: acknowledged, one step, crashed, recovered, seen by a client. */
function goodHistory(): void {
  ledger.append({ kind: 'ack', workflowId: 'w', by: 'client' });
  ledger.append({ kind: 'start', workflowId: 'w', stepNumber: 0, by: 'first' });
  ledger.append({ kind: 'end', workflowId: 'w', stepNumber: 0, by: 'first' });
  observe(ledger, { workflows: [pending], steps: [charge] });
  observe(ledger, { workflows: [done], steps: [charge] });
  ledger.append({ kind: 'result', workflowId: 'w', by: 'client', detail: '{"status":"SUCCESS","value":"fine"}' });
}

function evidence(rows: { workflows?: Row[]; steps?: Row[] } = {}): Evidence {
  return { workflows: rows.workflows ?? [done], steps: rows.steps ?? [charge], entries: ledger.entries() };
}

it('finds no violation in a correct history', () => {
  goodHistory();
  expect(violations(evidence())).toEqual([]);
});

it('I1 reports a step with two checkpoints', () => {
  goodHistory();
  const found = atMostOneCheckpoint(evidence({ steps: [charge, { ...charge, completion_seq: 1 }] }));
  expect(found).toEqual(['I1: w#0 has two checkpoints']);
});

it('I1 reports two results at one place of the completion order', () => {
  goodHistory();
  const found = atMostOneCheckpoint(evidence({ steps: [charge, { ...charge, function_id: 1 }] }));
  expect(found).toEqual(['I1: two results of w at place 0 of the completion order']);
});

it('I1 reports a body that begins after its checkpoint was committed', () => {
  goodHistory();
  ledger.append({ kind: 'start', workflowId: 'w', stepNumber: 0, by: 'second' });
  expect(atMostOneCheckpoint(evidence())).toEqual(['I1: the body of w#0 began after its checkpoint was committed']);
});

it('I3 reports an outcome that changed', () => {
  goodHistory();
  const found = outcomesStay(evidence({ workflows: [{ ...done, status: 'CANCELLED' }] }));
  expect(found).toHaveLength(1);
  expect(found[0]).toMatch(/^I3: the outcome of w was .*SUCCESS.* and is .*CANCELLED/);
});

it('I3 reports an ended workflow that is unfinished again, or gone', () => {
  goodHistory();
  expect(outcomesStay(evidence({ workflows: [pending] }))[0]).toMatch(/and is unfinished$/);
  expect(outcomesStay(evidence({ workflows: [] }))[0]).toMatch(/and is gone$/);
});

it('I4 reports an acknowledged start that never ended, or was lost', () => {
  goodHistory();
  ledger.append({ kind: 'ack', workflowId: 'lost', by: 'client' });
  expect(ackedStartsEnd(evidence({ workflows: [pending] }))).toEqual([
    'I4: the start of w was acknowledged, but no end came',
    'I4: the start of lost was acknowledged, but no end came',
  ]);
});

it('I5 reports a recorded step without an effect', () => {
  goodHistory();
  const found = recordedStepsTookEffect(
    evidence({ steps: [charge, { ...charge, function_id: 1, completion_seq: 1 }] }),
  );
  expect(found).toEqual(['I5: w#1 is on record, but its body never ran to its end']);
});

it('I8 reports an observer with a result other than the recorded one', () => {
  goodHistory();
  ledger.append({ kind: 'result', workflowId: 'w', by: 'another', detail: '{"status":"SUCCESS","value":"odd"}' });
  expect(observersAgree(evidence())).toEqual([
    'I8: another got {"status":"SUCCESS","value":"odd"} from w, and {"status":"SUCCESS","value":"fine"} is on record',
  ]);
});
