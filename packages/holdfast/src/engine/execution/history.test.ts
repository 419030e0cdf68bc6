import { describe, expect, it } from 'vitest';
import type { StepRecord } from '../../storage/contract/storage.js';
import { History } from './history.js';

const record = (stepNumber: number, name: string, completionSeq: number | null = stepNumber) =>
  ({ stepNumber, name, completionSeq }) as StepRecord;

describe('a history', () => {
  it('answers a request with the step of that number, and says whether the names match', () => {
    const history = new History([record(0, 'charge'), record(1, 'ship')]);
    expect(history.request(0, 'charge')).toMatchObject({ matches: true, step: { name: 'charge' } });
    expect(history.request(1, 'refund')).toMatchObject({ matches: false, step: { name: 'ship' } });
    expect(history.request(2, 'anything')).toEqual({ matches: true, step: undefined });
  });

  it('remembers which steps were requested', () => {
    const history = new History([record(0, 'charge'), record(1, 'ship')]);
    history.request(1, 'ship');
    expect([0, 1, 2].map((number) => history.wasRequested(number))).toEqual([false, true, false]);
    expect(history.reaches(1)).toBe(true);
    expect(history.reaches(2)).toBe(false);
  });

  it('finds the first gap in the order of completion', () => {
    expect(new History([record(0, 'a', 0), record(1, 'b', 1)]).missing).toBeUndefined();
    expect(new History([record(0, 'a', 0), record(1, 'b', 3), record(2, 'c', 2)]).missing).toBe(1);
    expect(new History([record(0, 'sleep', null)]).missing).toBeUndefined();
  });

  it('shows stored and requested steps side by side, with the first difference marked', () => {
    const history = new History([record(0, 'charge'), record(1, 'ship')]);
    history.request(0, 'charge');
    history.request(1, 'refund');
    const lines = history.diff().split('\n');
    expect(lines).toHaveLength(3);
    expect(lines.filter((line) => line.startsWith('>'))).toEqual([expect.stringMatching(/^> +1 +ship +refund$/)]);
  });

  it('marks a stored step that was never requested', () => {
    const history = new History([record(0, 'charge'), record(1, 'ship')]);
    history.request(0, 'charge');
    expect(history.diff()).toMatch(/^> +1 +ship +\(nothing\)$/m);
  });
});
