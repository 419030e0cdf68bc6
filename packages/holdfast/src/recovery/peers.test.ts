import { describe, expect, it } from 'vitest';
import type { ExecutorRecord } from '../storage/contract/executors.js';
import { Peers } from './peers.js';

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
  function looking(isGone: () => boolean) {
    const peers = new Peers('self', isGone);
    let at = 0;
    const look = (beats: number) => {
      at += 5_000;
      return peers.look({ records: [{ ...peer, beats }], at, now: at, paceMs: 5_000, locksTell: false });
    };
    return { peers, look };
  }

  it('stays dead when the next look shows a heartbeat from before its end', () => {
    let gone = false;
    const { peers, look } = looking(() => gone);
    look(1);
    // It beats once more, and dies before anyone looks.
    gone = true;
    expect(peers.lookAtProcesses(6_000)).toHaveLength(1);
    look(2);
    expect(peers.isDead('peer')).toBe(true);
    look(2);
    expect(peers.isDead('peer')).toBe(true);
  });

  it('is alive after all when it goes on beating: then nothing can be told by its process', () => {
    const { peers, look } = looking(() => true);
    expect(look(1)).toHaveLength(1);
    look(2);
    expect(peers.isDead('peer')).toBe(false);
    look(3);
    expect(peers.lookAtProcesses(20_000)).toEqual([]);
  });
});

describe('a peer whose lock is absent', () => {
  function looking() {
    const peers = new Peers('self', () => false);
    let at = 0;
    const look = (beats: number, present: boolean) => {
      at += 500;
      const records = [{ ...peer, host: 'elsewhere', lockKey: '7', beats, present }];
      return peers.look({ records, at, now: at, paceMs: 500, locksTell: true });
    };
    return { peers, look };
  }

  it('is dead at the second look, unless it beats in between', () => {
    const { peers, look } = looking();
    look(1, true);
    // Its last heartbeat may come between two looks, with its end.
    expect(look(2, false)).toEqual([]);
    expect(look(2, false)).toHaveLength(1);
    expect(peers.isDead('peer')).toBe(true);
  });

  it('and that goes on beating is judged by its silence alone, until its lock is seen again', () => {
    const { peers, look } = looking();
    look(1, true);
    for (let beats = 2; beats < 40; beats += 2) expect([look(beats, false), look(beats + 1, false)]).toEqual([[], []]);
    for (let looks = 0; looks < 10; looks++) look(39, false);
    expect(peers.isDead('peer')).toBe(false);
    look(40, true);
    look(40, false);
    expect(look(40, false)).toHaveLength(1);
  });
});
