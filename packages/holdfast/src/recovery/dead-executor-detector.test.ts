import { describe, expect, it } from 'vitest';
import type { ExecutorRecord } from '../storage/contract/executors.js';
import { DeadExecutorDetector } from './dead-executor-detector.js';

const other: ExecutorRecord = {
  incarnation: 'other',
  executorId: 'other',
  appName: 'app',
  version: '1',
  host: 'here',
  pid: 1,
  processStart: null,
  ttlMs: 30_000,
  lockKey: null,
  listens: null,
  startedAt: 0,
  heartbeatAt: 0,
  beats: 1,
  present: null,
};

describe('an executor whose process is gone', () => {
  function polled(isGone: () => boolean) {
    const detector = new DeadExecutorDetector('self', isGone);
    let at = 0;
    const poll = (beats: number) => {
      at += 5_000;
      return detector.look({ records: [{ ...other, beats }], at, now: at, paceMs: 5_000, locksTell: false });
    };
    return { detector, poll };
  }

  it('stays dead when the next poll shows a heartbeat from before its end', () => {
    let gone = false;
    const { detector, poll } = polled(() => gone);
    poll(1);
    // The executor sends one more heartbeat, and dies before the next poll.
    gone = true;
    expect(detector.lookAtProcesses(6_000)).toHaveLength(1);
    poll(2);
    expect(detector.isDead('other')).toBe(true);
    poll(2);
    expect(detector.isDead('other')).toBe(true);
  });

  it('is alive if its heartbeats continue, and from then on its pid is not used', () => {
    const { detector, poll } = polled(() => true);
    expect(poll(1)).toHaveLength(1);
    poll(2);
    expect(detector.isDead('other')).toBe(false);
    poll(3);
    expect(detector.lookAtProcesses(20_000)).toEqual([]);
  });
});

describe('an executor whose lock is absent', () => {
  function polled() {
    const detector = new DeadExecutorDetector('self', () => false);
    let at = 0;
    const poll = (beats: number, present: boolean) => {
      at += 500;
      const records = [{ ...other, host: 'elsewhere', lockKey: '7', beats, present }];
      return detector.look({ records, at, now: at, paceMs: 500, locksTell: true });
    };
    return { detector, poll };
  }

  it('is dead at the second poll, unless it sends a heartbeat in between', () => {
    const { detector, poll } = polled();
    poll(1, true);
    // The executor may send its last heartbeat and die between the same two polls.
    expect(poll(2, false)).toEqual([]);
    expect(poll(2, false)).toHaveLength(1);
    expect(detector.isDead('other')).toBe(true);
  });

  it('but whose heartbeats continue is judged by silence alone, until its lock is seen again', () => {
    const { detector, poll } = polled();
    poll(1, true);
    for (let beats = 2; beats < 40; beats += 2) expect([poll(beats, false), poll(beats + 1, false)]).toEqual([[], []]);
    for (let polls = 0; polls < 10; polls++) poll(39, false);
    expect(detector.isDead('other')).toBe(false);
    poll(40, true);
    poll(40, false);
    expect(poll(40, false)).toHaveLength(1);
  });
});
