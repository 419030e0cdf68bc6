import { expect, it } from 'vitest';
import { atMostOneCheckpoint, recordedStepsTookEffect } from '../faults/invariants.js';
import type { Entry, NewEntry } from '../faults/ledger.js';
import type { Row } from '../faults/rows.js';
import {
  endsAsItShould,
  errorsAreDocumented,
  everyoneAgrees,
  everythingEnds,
  limitsHold,
  onlyEndedGo,
  onlyOwnersWrite,
  outcomesStay,
  soakViolations,
  transactionsOnce,
} from './checks.js';
import type { SoakEvidence } from './evidence.js';
import { messagesOnce, streamsWhole } from './messaging-checks.js';

const stored = (value: unknown): string => JSON.stringify({ json: value });

const row = (id: string, value: unknown, more: Row = {}): Row => ({
  workflow_uuid: id,
  name: id.split('-')[0],
  status: 'SUCCESS',
  output: stored(value),
  error: null,
  completed_at: 7,
  ...more,
});
const cancelled: Row = { status: 'CANCELLED', output: null, completed_at: 9 };

const books = row('books-1', 1);
const mailbox = row('mailbox-2', 2);
const teller = row('teller-3', 2);
const detached = row('family-4.d', 1);

let completions = 0;
const step = (id: string, number: number, name: string, more: Row = {}): Row => ({
  workflow_uuid: id,
  function_id: number,
  function_name: name,
  completion_seq: completions++,
  child_workflow_id: null,
  output: null,
  error: null,
  ...more,
});
const bump = step('books-1', 0, 'bump');
const receipts = [0, 2].map((number, i) =>
  step('mailbox-2', number, 'DBOS.recv', { output: stored(`mailbox-2/${i}`) }),
);
const message = (i: number): Row => ({
  destination_uuid: 'mailbox-2',
  message: stored(`mailbox-2/${i}`),
  consumed: true,
});
const line = (offset: number, value: unknown): Row => ({ workflow_uuid: 'teller-3', offset, value: stored(value) });
const end = line(2, '__DBOS_STREAM_CLOSED__');

const asked = (id: string, expected: unknown, ending = 'SUCCESS'): NewEntry[] => [
  { kind: 'asked', workflowId: id, by: 'client', detail: JSON.stringify({ expected, ending }) },
  { kind: 'ack', workflowId: id, by: 'client' },
];
const told = (kind: string, workflowId: string, detail?: string): NewEntry => ({
  kind,
  workflowId,
  by: 'client',
  ...(detail !== undefined && { detail }),
});

/** A run in which everything went well. */
const goodEntries: NewEntry[] = [
  ...asked('books-1', 1),
  ...asked('mailbox-2', 2),
  ...asked('teller-3', 2),
  { kind: 'start', workflowId: 'books-1', stepNumber: 0, by: 'first' },
  { kind: 'end', workflowId: 'books-1', stepNumber: 0, by: 'first' },
  { kind: 'committed', workflowId: 'books-1', stepNumber: 0, by: 'database' },
  told('sent', 'mailbox-2', 'mailbox-2/0'),
  told('sent', 'mailbox-2', 'mailbox-2/1'),
  told('read', 'teller-3', '[0,1]'),
  told('result', 'books-1', '{"status":"SUCCESS","value":1}'),
  told('told', 'books-1', 'DATABASE_FAILED The connection broke.'),
  told('thrown', 'books-1', 'none planned: try again'),
];

interface Planted extends Partial<Omit<SoakEvidence, 'entries'>> {
  readonly added?: readonly NewEntry[];
}

function evidence({ added = [], ...planted }: Planted = {}): SoakEvidence {
  const entries = [...goodEntries, ...added].map(
    (entry, seq): Entry => ({ stepNumber: null, detail: null, ...entry, seq }),
  );
  return {
    workflows: [books, mailbox, teller, detached],
    steps: [bump, ...receipts],
    messages: [message(0), message(1)],
    streams: [line(0, 0), line(1, 1), end],
    events: [{ workflow_uuid: 'teller-3', value: stored(2) }],
    counters: [{ id: 'books-1#0', n: 1 }],
    intrusions: [],
    gone: [teller],
    peaks: { queues: { limited: 6, changing: 8 }, partitions: { 'parted tenant 1': 1 } },
    entries,
    ...planted,
  };
}

it('finds no violation in a run without one', () => {
  expect(soakViolations(evidence())).toEqual([]);
});

it('I1 reports a second checkpoint, and a body that begins after its checkpoint', () => {
  expect(atMostOneCheckpoint(evidence({ steps: [bump, { ...bump, completion_seq: 99 }] }))).toEqual([
    'I1: books-1#0 has two checkpoints',
  ]);
  const again: NewEntry = { kind: 'start', workflowId: 'books-1', stepNumber: 0, by: 'second' };
  expect(atMostOneCheckpoint(evidence({ added: [again] }))).toEqual([
    'I1: the body of books-1#0 began after its checkpoint was committed',
  ]);
});

it('I2 reports a checkpoint by a process that did not own the workflow', () => {
  const intrusions = [{ workflow_uuid: 'books-1', function_id: 0, executor_id: 'host:2:0:x', pid: '1' }];
  expect(onlyOwnersWrite(evidence({ intrusions }))).toEqual(['I2: process 1 wrote books-1#0 of host:2:0:x']);
});

const seenCancelled = told('outcome', 'books-1', '{"status":"CANCELLED","output":null,"error":null,"completedAt":5}');

it('I3 reports an outcome that changed, was taken back, or is gone', () => {
  const seen = told('outcome', 'books-1', '{"status":"SUCCESS","output":"{}","error":null,"completedAt":7}');
  const outcomes = (workflows: Row[], added = [seen]) => outcomesStay(evidence({ workflows, added }));
  expect(outcomes([books])[0]).toMatch(/^I3: the outcome of books-1 was .* and is .*json/);
  expect(outcomes([{ ...books, status: 'PENDING' }])[0]).toMatch(/and is unfinished$/);
  expect(outcomes([])[0]).toMatch(/and is gone$/);
  expect(outcomes([books], [seenCancelled])[0]).toMatch(/CANCELLED.* and is .*SUCCESS/);
  // Resuming a workflow that ended with success changes nothing.
  expect(outcomes([books], [told('resume', 'books-1'), seen])).toHaveLength(1);
});

it('I3 lets a cancelled workflow continue once an operator has resumed it', () => {
  expect(outcomesStay(evidence({ added: [seenCancelled, told('resume', 'books-1')] }))).toEqual([]);
});

it('I4 reports a lost start, and an unfinished workflow that has no caller waiting for it', () => {
  const workflows = [mailbox, teller, { ...detached, status: 'PENDING', executor_id: 'x' }];
  expect(everythingEnds(evidence({ workflows }))).toEqual([
    'I4: the start of books-1 was acknowledged, and it is not there',
    'I4: family-4.d is still PENDING (executor x)',
  ]);
});

it('I4 reports a result or an ending that does not follow from the arguments of a workflow', () => {
  const of = (...workflows: Row[]) => endsAsItShould(evidence({ workflows }))[0];
  expect(of({ ...books, output: stored(2) })).toMatch(/it returned .* instead of 1$/);
  expect(of({ ...books, status: 'STALLED', status_reason: 'odd' })).toBe('I4: books-1: it ended as STALLED (odd)');
  expect(of({ ...books, status: 'ERROR', error: 'x' })).toMatch(/it ended as ERROR/);
  expect(of({ ...books, ...cancelled })).toMatch(/it ended as CANCELLED/);
  expect(of({ ...detached, output: stored(7) })).toMatch(/it returned/);
  expect(of(row('unknown-9', 1))).toBe('I4: unknown-9: nobody asked for it');
});

it('I4 reports a workflow that outlived its timeout, and one that failed with an unexpected error', () => {
  const workflows = [
    row('late-5', 'never'),
    row('failing-6', null, { status: 'ERROR', error: stored({ message: 'odd' }) }),
  ];
  const added = [...asked('late-5', null, 'CANCELLED'), ...asked('failing-6', null, 'ERROR')];
  const found = endsAsItShould(evidence({ workflows, added }));
  expect(found[0]).toMatch(/late-5: it ended as SUCCESS/);
  expect(found[1]).toMatch(/failing-6: it failed with .*odd/);
});

it('I4 accepts a cancellation by an operator, but not that of a detached child', () => {
  const workflows = [books, detached].map((each) => ({ ...each, ...cancelled }));
  const added = [told('cancel', 'books-1'), told('cancel', 'family-4')];
  expect(endsAsItShould(evidence({ workflows, added }))).toEqual(['I4: family-4.d: it ended as CANCELLED (null)']);
});

it('I5 reports a transaction that took effect twice, never or without a record, and a step without an effect', () => {
  const of = (counters: Row[], steps = [bump]) => transactionsOnce(evidence({ counters, steps }));
  expect(of([{ id: 'books-1#0', n: 2 }])).toEqual(['I5: the transaction books-1#0 took effect 2 times']);
  expect(of([])).toEqual(['I5: the transaction books-1#0 took effect 0 times']);
  expect(of([{ id: 'books-1#0', n: 1 }], [])).toEqual([
    'I5: the transaction books-1#0 took effect, and is not on record',
  ]);
  expect(recordedStepsTookEffect(evidence({ steps: [step('books-1', 5, 'never begun')] }))).toHaveLength(1);
});

it('I6 reports a message that was received twice, lost, or out of order', () => {
  const [first, second] = receipts as [Row, Row];
  const of = (planted: Planted) => messagesOnce(evidence(planted));
  const twice = step('mailbox-2', 4, 'DBOS.recv', { output: first.output });
  expect(of({ steps: [...receipts, twice] })[0]).toBe('I6: mailbox-2 <- mailbox-2/0 was received twice');
  expect(of({ steps: [first] })).toEqual([
    'I6: mailbox-2 <- mailbox-2/1 is marked as consumed, and nobody received it',
    'I6: mailbox-2 <- mailbox-2/1 was acknowledged, and never received',
  ]);
  const swapped = [{ ...first, function_id: 3 }, second];
  expect(of({ steps: swapped })[0]).toMatch(/out of order$/);
  expect(of({ messages: [message(0), { ...message(1), consumed: false }] })).toEqual([
    'I6: mailbox-2 <- mailbox-2/1 was received, and is not marked as consumed',
  ]);
  expect(of({ messages: [message(0), message(1), message(1)] })).toEqual([
    'I6: mailbox-2 <- mailbox-2/1 is there twice',
  ]);
});

it('I6 reports a stream with a gap, a duplicate or a missing end, a wrong read, and an old event', () => {
  const of = (...streams: Row[]) => streamsWhole(evidence({ streams }));
  expect(of(line(0, 0), line(2, 1), { ...end, offset: 3 })).toEqual(['I6: the stream of teller-3 has a gap']);
  expect(of(line(0, 0), line(1, 0), end)[0]).toBe('I6: the stream of teller-3 is 0,0');
  expect(of(line(0, 0), line(1, 1))).toEqual(['I6: the stream of teller-3 has 2 entries instead of 2 and its end']);
  expect(streamsWhole(evidence({ added: [told('read', 'teller-3', '[0]')] }))).toEqual([
    'I6: client read [0] from teller-3, and [0,1] is there',
  ]);
  expect(streamsWhole(evidence({ events: [{ workflow_uuid: 'teller-3', value: stored(1) }] }))).toEqual([
    'I6: the event of teller-3 is 1 instead of 2',
  ]);
});

it('I7 reports an error without a documented type, and every uncaught error', () => {
  const added = [
    told('told', 'books-1', 'ECONNRESET read'),
    told('thrown', 'books-1', 'none odd'),
    told('stray', '', 'boo'),
  ];
  expect(errorsAreDocumented(evidence({ added }))).toEqual([
    'I7: client was given an error of no documented type at books-1: ECONNRESET read',
    'I7: client was given an error of no documented type at books-1: none odd',
    'I7: client: boo',
  ]);
});

it('I8 reports an observer with a result other than the recorded one, except a cancellation before a resume', () => {
  const odd = told('result', 'books-1', '{"status":"CANCELLED"}');
  expect(everyoneAgrees(evidence({ added: [odd] }))).toHaveLength(1);
  expect(everyoneAgrees(evidence({ added: [odd, told('resume', 'books-1')] }))).toEqual([]);
  const wrong = told('result', 'books-1', '{"status":"SUCCESS","value":2}');
  expect(everyoneAgrees(evidence({ added: [wrong, told('resume', 'books-1')] }))).toHaveLength(1);
});

it('reports more workflows at once than a queue or a partition allows', () => {
  const peaks = { queues: { limited: 7, changing: 9 }, partitions: { 'parted tenant 1': 2, 'limited null': 7 } };
  expect(limitsHold(evidence({ peaks }))).toEqual([
    'limits: 7 ran at once on queue limited, which allows 6',
    'limits: 9 ran at once on queue changing, which allows 8',
    'limits: 2 ran at once in partition parted tenant 1',
  ]);
});

it('reports a workflow that was deleted before its end, or while it was a child of an unfinished workflow', () => {
  const gone = [
    row('nap-1', null, { status: 'PENDING', completed_at: null }),
    row('nap-2.c0', 3, { was_needed: true }),
  ];
  expect(onlyEndedGo(evidence({ gone }))).toEqual([
    'retention: nap-1 was deleted as PENDING',
    'retention: nap-2.c0 was deleted as SUCCESS, and needed',
  ]);
});
