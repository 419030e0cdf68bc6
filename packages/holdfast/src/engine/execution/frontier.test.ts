import { describe, expect, it } from 'vitest';
import { Frontier } from './frontier.js';

const row = (stepNumber: number, since: number) => ({ stepNumber, completionSeq: stepNumber, since });

describe('Frontier', () => {
  it('names no predecessor before the first commit under the owner token', () => {
    expect(new Frontier().after).toEqual({ afterStep: null, afterSeq: null, afterAlso: null });
  });

  it('names only the last result of sequential steps', () => {
    const frontier = new Frontier();
    for (const n of [0, 1, 2]) frontier.confirm(row(n, n), n + 1);
    expect(frontier.after).toEqual({ afterStep: 2, afterSeq: 2, afterAlso: null });
  });

  it('names one result of each concurrent statement, in whatever order the statements committed', () => {
    const frontier = new Frontier();
    frontier.confirm(row(0, 0), 1);
    // Submitted together and written by two statements. The later statement was confirmed first.
    for (const n of [4, 5]) frontier.confirm(row(n, 1), 2);
    for (const n of [1, 2, 3]) frontier.confirm(row(n, 1), 3);
    expect(frontier.results.map(({ step }) => step)).toEqual([4, 1]);
    expect(frontier.after).toEqual({ afterStep: 4, afterSeq: 4, afterAlso: '[{"step":1,"seq":1}]' });
    frontier.confirm(row(6, 3), 4);
    expect(frontier.results.map(({ step }) => step)).toEqual([6]);
  });

  it('keeps a result that was confirmed after the next row had been submitted', () => {
    const frontier = new Frontier();
    frontier.confirm(row(0, 0), 5);
    // Submitted when 4 statements had been confirmed: it is unknown which of the two results committed first.
    frontier.confirm(row(1, 4), 6);
    expect(frontier.results.map(({ step }) => step)).toEqual([0, 1]);
  });

  it('ignores a row without a place in the completion order, and starts from the last result of a history', () => {
    const frontier = new Frontier();
    frontier.confirm({ stepNumber: 0, completionSeq: null, since: 0 }, 1);
    expect(frontier.results).toEqual([]);
    const steps = [3, 7, 5].map((seq, stepNumber) => ({ stepNumber, completionSeq: seq }));
    expect(Frontier.of(steps as never).after).toEqual({ afterStep: 1, afterSeq: 7, afterAlso: null });
  });

  it('names the child beside the results', () => {
    const frontier = new Frontier();
    expect(frontier.afterChild('c').afterAlso).toBe('[{"child":"c"}]');
    frontier.confirm(row(0, 0), 1);
    frontier.confirm(row(1, 0), 2);
    expect(frontier.afterChild('c').afterAlso).toBe('[{"step":1,"seq":1},{"child":"c"}]');
  });
});
