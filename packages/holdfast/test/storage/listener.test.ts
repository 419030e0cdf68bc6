import { EventEmitter } from 'node:events';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ListenerCallbacks, Presence } from '../../src/storage/contract/listening.js';
import { Listener } from '../../src/storage/postgres/listener.js';

/** A fake server for the sessions of a listener. Time is faked, so that half a minute takes no time. */
class FakeServer {
  readonly sessions: FakeSession[] = [];
  /** True if connections can be opened. */
  accepts = true;
  readonly heard: (readonly string[] | null)[] = [];
  readonly states: boolean[] = [];
  readonly deafness: boolean[] = [];

  /** The reported states of the lock that shows other processes that this process lives. */
  readonly presences: boolean[] = [];

  /** `delivers`: the fate of a notification to itself. `lends`: the session of the server that a statement gets. */
  constructor(
    public delivers: 'yes' | 'no' | 'fails' = 'yes',
    readonly presence?: Presence,
    public lends: 'one session' | 'any session' = 'one session',
  ) {}

  readonly ears = new Listener({
    channels: ['one', 'two'],
    connect: async () => {
      if (!this.accepts) throw new Error('refused');
      const session = new FakeSession(this);
      this.sessions.push(session);
      return session as unknown as pg.Client;
    },
    receive: () => {},
    test: async (heard) => {
      if (this.delivers === 'fails') throw new Error('the notification could not be sent');
      if (this.delivers === 'yes') setTimeout(heard, 5);
    },
    onDeaf: (isDeaf) => this.deafness.push(isDeaf),
    hearing: this.hearing(),
  });

  private hearing(): ListenerCallbacks {
    const presence = (): Presence | undefined => this.presence;
    return {
      received: (topics) => this.heard.push(topics),
      state: (hears) => this.states.push(hears),
      // Read only after a session has begun, when the constructor has finished.
      get presence() {
        return presence();
      },
    };
  }

  get hears(): boolean {
    return this.states.at(-1) ?? false;
  }
}

class FakeSession extends EventEmitter {
  readonly queries: string[] = [];
  ended = false;

  constructor(private readonly server?: FakeServer) {
    super();
  }

  async query(text: string): Promise<unknown> {
    this.queries.push(text);
    if (text.includes('pg_try_advisory_lock')) return { rows: [{ locked: true, pid: 7 }] };
    return { rows: text.includes('pg_locks') && this.server?.lends === 'one session' ? [{}] : [] };
  }

  async end(): Promise<void> {
    this.ended = true;
  }
}

describe('the session of a listener', () => {
  let server: FakeServer;
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval'] });
  });
  afterEach(async () => {
    await server.ears.stop();
    vi.useRealTimers();
  });
  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

  it('listens on every channel, and reports that it listens after it receives its own notification', async () => {
    server = new FakeServer();
    await pass(0);
    expect(server.hears).toBe(false);
    await pass(10);
    await server.ears.ready;
    expect(server.sessions.map((session) => session.queries)).toEqual([['listen "one"; listen "two"']]);
    expect([server.hears, server.heard]).toEqual([true, []]);
  });

  it('is replaced when its connection ends, and reports that notifications may have been missed', async () => {
    server = new FakeServer();
    await pass(10);
    server.sessions[0]?.emit('end');
    await pass(0);
    expect(server.hears).toBe(false);
    await pass(1_000);
    expect([server.sessions.length, server.hears, server.heard]).toEqual([2, true, [null]]);
  });

  it('is replaced within half a minute if notifications stop arriving without an error', async () => {
    server = new FakeServer();
    await pass(10);
    server.delivers = 'no';
    await pass(33_000);
    expect(server.hears).toBe(false);
    expect(server.sessions[0]?.ended).toBe(true);
    server.delivers = 'yes';
    await pass(61_000);
    expect(server.hears).toBe(true);
    expect(server.heard).toContain(null);
  });

  it('is reported once if it never receives anything, as behind a pooler, and retried each minute', async () => {
    server = new FakeServer('no');
    await pass(3_100);
    await server.ears.ready;
    expect([server.hears, server.deafness]).toEqual([false, [true]]);
    await pass(180_000);
    expect(server.sessions.length).toBeGreaterThan(2);
    expect(server.sessions.length).toBeLessThan(6);
    server.delivers = 'yes';
    await pass(70_000);
    expect([server.hears, server.deafness.at(-1)]).toEqual([true, false]);
  });

  it('is not reported if the notification could not be sent, and continues if it worked before', async () => {
    server = new FakeServer('fails');
    await pass(20_000);
    expect(server.deafness).toEqual([]);
    server.delivers = 'yes';
    await pass(6_000);
    expect(server.hears).toBe(true);
    const sessions = server.sessions.length;
    server.delivers = 'fails';
    await pass(65_000);
    expect([server.sessions.length, server.hears]).toEqual([sessions, true]);
  });

  it('is retried as long as no connection can be opened', async () => {
    server = new FakeServer();
    await pass(10);
    server.accepts = false;
    server.sessions[0]?.emit('end');
    await pass(60_000);
    await server.ears.ready;
    expect(server.hears).toBe(false);
    server.accepts = true;
    await pass(6_000);
    expect(server.hears).toBe(true);
  });

  it('does not delay a launch if the answer to LISTEN never arrives', async () => {
    const silent = vi.spyOn(FakeSession.prototype, 'query').mockImplementation(() => new Promise(() => {}));
    server = new FakeServer();
    let ready = false;
    void server.ears.ready.then(() => {
      ready = true;
    });
    await pass(60_000);
    silent.mockRestore();
    expect(ready).toBe(true);
    await pass(60_000);
    expect(server.hears).toBe(true);
  });

  const watched = (lends?: FakeServer['lends'], delivers: FakeServer['delivers'] = 'yes'): FakeServer => {
    const presence = { key: '5', held: (isHeld: boolean) => void server.presences.push(isHeld) };
    return new FakeServer(delivers, presence, lends);
  };

  it('takes its lock after its first own notification, and in later sessions before anything else', async () => {
    server = watched();
    await pass(10);
    await server.ears.ready;
    expect(server.presences).toEqual([true]);
    const [listen, lock] = server.sessions[0]?.queries ?? [];
    expect([listen, lock]).toEqual([expect.stringMatching(/^listen/), expect.stringMatching(/advisory_lock/)]);
    server.sessions[0]?.emit('end');
    await pass(0);
    expect(server.presences).toEqual([true, false]);
    await pass(200);
    expect(server.presences).toEqual([true, false, true]);
    expect(server.sessions[1]?.queries[0]).toMatch(/advisory_lock/);
  });

  it('leaves no lock behind a pooler if it receives nothing, or if the lock is in another session', async () => {
    server = watched('any session', 'no');
    await pass(130_000);
    expect(server.sessions.length).toBeGreaterThan(1);
    expect(server.sessions.flatMap((session) => session.queries).filter((text) => /advisory/.test(text))).toEqual([]);
    await server.ears.stop();
    server = watched('any session');
    await pass(10);
    await server.ears.ready;
    expect([server.hears, server.presences.includes(true)]).toEqual([true, false]);
  });
});
