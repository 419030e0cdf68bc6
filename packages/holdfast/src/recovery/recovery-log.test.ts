import { expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import { RecoveryLog } from './recovery-log.js';

function stage() {
  const lines: string[] = [];
  const warn = (line: string): void => void lines.push(line);
  const engine = {
    logger: { debug() {}, info() {}, warn, error: warn },
    registry: { get: () => ({}), policyOf: () => ({ autoResume: false }) },
    warnOnce: (_: string, line: string) => warn(line),
  };
  return { notices: new RecoveryLog(engine as unknown as Engine), lines };
}

it('looks for stranded work once after each death, and forgets deaths that nobody knows of any more', () => {
  const { notices } = stage();
  const [a, b] = [{ incarnation: 'a' }, { incarnation: 'b' }];
  expect(notices.fresh([a])).toEqual([a]);
  notices.stranded([], [a]);
  expect(notices.fresh([a, b])).toEqual([b]);
  expect(notices.fresh([b])).toEqual([b]);
  // Nothing was kept of it meanwhile.
  expect(notices.fresh([a])).toEqual([a]);
});

it('says that work waits for an operator when there is more or other work, and keeps one thing for each name', () => {
  const { notices, lines } = stage();
  const left = (workflowId: string, count: number) => [
    { name: 'wf', className: null, configName: null, workflowId, count },
  ];
  for (const [id, count] of [
    ['a', 1],
    ['a', 1],
    ['a', 2],
    ['a', 2],
    ['b', 2],
    ['a', 1],
  ] as const) {
    expect(notices.left(left(id, count), 'never')).toBe(false);
  }
  expect(lines.map((line) => /^Workflow "(.)"(?: and (\d))?/.exec(line)?.slice(1))).toEqual([
    ['a', undefined],
    ['a', '1'],
    ['b', '1'],
    ['a', undefined],
  ]);
});
