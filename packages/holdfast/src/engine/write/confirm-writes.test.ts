import { describe, expect, it } from 'vitest';
import type { NewStep, StepState, Storage } from '../../storage/contract/storage.js';
import { Frontier } from '../execution/frontier.js';
import { ConfirmedWrites, type TrackedRow } from './confirm-writes.js';

const row = (stepNumber: number, frontier: Frontier, workflowId = 'w'): TrackedRow<NewStep> =>
  ({
    workflowId,
    owner: 'me',
    stepNumber,
    completionSeq: stepNumber,
    since: 0,
    frontier,
  }) as unknown as TrackedRow<NewStep>;

const stateOf = ({ workflowId, stepNumber, completionSeq }: NewStep, more: Partial<StepState> = {}): StepState => ({
  ...{ workflowId, stepNumber, completionSeq, owner: 'me', status: 'PENDING', recorded: true, failed: false },
  ...more,
});

function writesOver(states: readonly StepState[]) {
  const reads: unknown[] = [];
  const steps = {
    states: async (rows: unknown) => {
      reads.push(rows);
      return states;
    },
  };
  return { writes: new ConfirmedWrites({ steps } as unknown as Storage), reads };
}

describe('the rows of a statement that recorded steps', () => {
  it('are all written, without a read, if the statement wrote as many rows as it was given', async () => {
    const { writes, reads } = writesOver([]);
    const frontier = new Frontier();
    expect(await writes.steps([row(1, frontier), row(2, frontier)], 2)).toEqual(['written', 'written']);
    expect(reads).toEqual([]);
    // One statement committed both rows, so one of them stands for both.
    expect(frontier.results).toHaveLength(1);
  });

  it('are read if the statement wrote fewer rows: each row is written, or belongs to another owner', async () => {
    const rows = [row(1, new Frontier()), row(2, new Frontier(), 'lost'), row(3, new Frontier(), 'gone')];
    const [written, lost] = rows as [TrackedRow<NewStep>, TrackedRow<NewStep>];
    const { writes } = writesOver([stateOf(written), stateOf(lost, { owner: 'other', recorded: false })]);
    expect(await writes.steps(rows, 1)).toMatchObject([
      'written',
      { owner: 'other', status: 'PENDING' },
      { owner: null, status: undefined },
    ]);
  });

  it('count as results of different statements after a repeated write: an earlier attempt may have written some', async () => {
    const frontier = new Frontier();
    const rows = [row(1, frontier), row(2, frontier)];
    const { writes } = writesOver(rows.map((each) => stateOf(each)));
    expect(await writes.steps(rows, 1)).toEqual(['written', 'written']);
    expect(frontier.results.map(({ step }) => step)).toEqual([1, 2]);
  });
});
