import { describe, expect, it } from 'vitest';
import type { ExecutorRecord } from '../storage/contract/executors.js';
import { Peers } from './dead-executor-detector.js';

const peer: ExecutorRecord = {
  incarnation: 'peer',
  executorId: 'peer',
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

describe('a peer whose process is gone', () => {
  function polled(isGone: () => boolean) {
    const peers = new Peers('self', isGone);
    let at = 0;
    const poll = (beats: number) => {
      at += 5_000;
      return peers.look({ records: [{ ...peer, beats }], at, now: at, paceMs: 5_000, locksTell: false });
    };
    return { peers, poll };
  }

  it('stays dead when the next poll shows a heartbeat from before its end', () => {
    let gone = false;
    const { peers, poll } = polled(() => gone);
    poll(1);
    // The peer sends one more heartbeat, and dies before the next poll.
    gone = true;
    expect(peers.lookAtProcesses(6_000)).toHaveLength(1);
    poll(2);
    expect(peers.isDead('peer')).toBe(true);
    poll(2);
    expect(peers.isDead('peer')).toBe(true);
  });

  it('is alive if its heartbeats continue, and from then on its pid is not used', () => {
    const { peers, poll } = polled(() => true);
    expect(poll(1)).toHaveLength(1);
    poll(2);
    expect(peers.isDead('peer')).toBe(false);
    poll(3);
    expect(peers.lookAtProcesses(20_000)).toEqual([]);
  });
});

describe('a peer whose lock is absent', () => {
  function polled() {
    const peers = new Peers('self', () => false);
    let at = 0;
    const poll = (beats: number, present: boolean) => {
      at += 500;
      const records = [{ ...peer, host: 'elsewhere', lockKey: '7', beats, present }];
      return peers.look({ records, at, now: at, paceMs: 500, locksTell: true });
    };
    return { peers, poll };
  }

  it('is dead at the second poll, unless it sends a heartbeat in between', () => {
    const { peers, poll } = polled();
    poll(1, true);
    // The peer may send its last heartbeat and die between the same two polls.
    expect(poll(2, false)).toEqual([]);
    expect(poll(2, false)).toHaveLength(1);
    expect(peers.isDead('peer')).toBe(true);
  });

  it('but whose heartbeats continue is judged by silence alone, until its lock is seen again', () => {
    const { peers, poll } = polled();
    poll(1, true);
    for (let beats = 2; beats < 40; beats += 2) expect([poll(beats, false), poll(beats + 1, false)]).toEqual([[], []]);
    for (let polls = 0; polls < 10; polls++) poll(39, false);
    expect(peers.isDead('peer')).toBe(false);
    poll(40, true);
    poll(40, false);
    expect(poll(40, false)).toHaveLength(1);
  });
});
