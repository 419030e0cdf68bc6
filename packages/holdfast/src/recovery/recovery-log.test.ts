import { expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import { RecoveryLog } from './recovery-log.js';

function setUp() {
  const lines: string[] = [];
  const warn = (line: string): void => void lines.push(line);
  const engine = {
    logger: { debug() {}, info() {}, warn, error: warn },
    registry: { get: () => ({}), policyOf: () => ({ autoResume: false }) },
    warnOnce: (_: string, line: string) => warn(line),
  };
  return { log: new RecoveryLog(engine as unknown as Engine), lines };
}

it('reports stranded work once after each death, and forgets deaths that are no longer listed', () => {
  const { log } = setUp();
  const [a, b] = [{ incarnation: 'a' }, { incarnation: 'b' }];
  expect(log.fresh([a])).toEqual([a]);
  log.stranded([], [a]);
  expect(log.fresh([a, b])).toEqual([b]);
  expect(log.fresh([b])).toEqual([b]);
  // The log forgot death a when the list did not contain it.
  expect(log.fresh([a])).toEqual([a]);
});

it('reports work that waits for an operator again only when the work has changed', () => {
  const { log, lines } = setUp();
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
    expect(log.left(left(id, count), 'never')).toBe(false);
  }
  expect(lines.map((line) => /^Workflow "(.)"(?: and (\d))?/.exec(line)?.slice(1))).toEqual([
    ['a', undefined],
    ['a', '1'],
    ['b', '1'],
    ['a', undefined],
  ]);
});
