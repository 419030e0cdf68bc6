import { createHash } from 'node:crypto';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import pg from 'pg';
import type { SeededRandom } from '../../src/model/ids.js';
import { bodyOf, eachFrame, type Frame, makeFrame, text, textsOf, typeOf } from './frames.js';

/**
 * A connection pooler in transaction mode, like PgBouncer: a client gets a server session for one transaction, and
 * perhaps another session for the next. Therefore session state (settings, locks, LISTEN, prepared statements) belongs
 * to whichever session was lent, and stays there.
 */
export interface Pooler {
  readonly url: string;
  /** How often a session was lent, and the most different sessions that one client has had. */
  readonly lent: number;
  readonly maxSessionsOfOneClient: number;
  close(): Promise<void>;
}

export interface PoolerOptions {
  readonly random: SeededRandom;
  /** The number of its sessions with the server. */
  readonly sessions?: number;
  /**
   * Prepared statements are either `tracked`: every session that gets a statement knows it (PgBouncer from 1.21 on,
   * with max_prepared_statements). Or they are left to chance.
   */
  readonly prepared: 'tracked' | 'left to chance';
  /** Resets the settings of a session before the session is lent again (PgBouncer's server_reset_query_always). */
  readonly forgets?: boolean;
}

export async function openPooler(target: string, options: PoolerOptions): Promise<Pooler> {
  const sessions = await Promise.all(Array.from({ length: options.sessions ?? 4 }, () => openSession(target)));
  const pool = new SessionPool(sessions, options.random, target, options.forgets ?? false);
  const clients = new Set<PooledClient>();
  let most = 0;
  const server = createServer((socket) => {
    const client = new PooledClient(socket, pool, options.prepared === 'tracked');
    clients.add(client);
    socket.on('close', () => {
      most = Math.max(most, client.sessions.size);
      clients.delete(client);
      client.gone();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(target);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    get lent() {
      return pool.lent;
    },
    get maxSessionsOfOneClient() {
      return Math.max(most, ...[...clients].map((client) => client.sessions.size));
    },
    close: async () => {
      for (const client of clients) client.socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      pool.close();
    },
  };
}

/** A session of the server. The driver logs in; after that only frames pass. */
class Session {
  client: PooledClient | undefined;
  /** The statements prepared in the session, by the pooler's names. */
  readonly known = new Set<string>();
  /** Pending answers to Parse, and whether the client knows that it sent the Parse. */
  readonly parsing: { readonly name: string; readonly own: boolean }[] = [];
  /** The number of pending answers to Close that the client must not see. */
  closing = 0;
  private wasReset: (() => void) | undefined;

  constructor(readonly socket: Socket) {
    eachFrame(socket, (frame) => this.fromServer(frame));
  }

  /** Resets the session. No client has it until the reset is done. */
  reset(done: () => void): void {
    this.wasReset = done;
    this.socket.write(makeFrame('Q', text('reset all')));
  }

  private fromServer(frame: Frame): void {
    const type = typeOf(frame);
    if (this.wasReset) {
      if (type !== 'Z') return;
      const done = this.wasReset;
      this.wasReset = undefined;
      done();
      return;
    }
    if (type === '3' && this.closing > 0) {
      this.closing--;
      return;
    }
    if (type === '1' && !this.parsing.shift()?.own) return;
    if (type === 'E') {
      // The server did not prepare the statements after the error.
      for (const { name } of this.parsing.splice(0)) this.known.delete(name);
      this.closing = 0;
    }
    // Outside a transaction no client has the session, so the frame is dropped. As a rule it is a notification.
    this.client?.fromServer(frame);
  }
}

async function openSession(target: string): Promise<Session> {
  const login = new pg.Client(target);
  await login.connect();
  const { stream } = (login as unknown as { connection: { stream: Socket } }).connection;
  for (const each of ['data', 'end', 'close', 'error']) stream.removeAllListeners(each);
  stream.on('error', () => {});
  return new Session(stream);
}

class SessionPool {
  lent = 0;
  private readonly waiting: ((session: Session) => void)[] = [];
  private closed = false;

  constructor(
    private readonly free: Session[],
    private readonly random: SeededRandom,
    private readonly target: string,
    private readonly forgets: boolean,
  ) {}

  /** Lends a random free session. */
  lend(take: (session: Session) => void): void {
    const [session] = this.free.splice(Math.floor(this.random.number() * this.free.length), 1);
    if (!session) {
      this.waiting.push(take);
      return;
    }
    this.lent++;
    take(session);
  }

  giveBack(session: Session): void {
    session.client = undefined;
    if (this.forgets) session.reset(() => this.setFree(session));
    else this.setFree(session);
  }

  private setFree(session: Session): void {
    this.free.push(session);
    const next = this.waiting.shift();
    if (next) this.lend(next);
  }

  /** Replaces a session whose client disconnected in the middle of a transaction. */
  replace(session: Session): void {
    session.client = undefined;
    session.socket.destroy();
    if (this.closed) return;
    openSession(this.target).then(
      (fresh) => (this.closed ? void fresh.socket.destroy() : this.giveBack(fresh)),
      () => {},
    );
  }

  close(): void {
    this.closed = true;
    for (const session of this.free) session.socket.destroy();
  }
}

/** Length and type of authentication: the pooler asks for none. */
const welcome = Buffer.concat([
  makeFrame('R', Buffer.alloc(4)),
  ...Object.entries({ server_version: '16.0', client_encoding: 'UTF8', standard_conforming_strings: 'on' }).map(
    ([name, value]) => makeFrame('S', text(name, value)),
  ),
  makeFrame('K', Buffer.alloc(8)),
  makeFrame('Z', Buffer.from('I')),
]);

class PooledClient {
  readonly sessions = new Set<Session>();
  private session: Session | undefined;
  private asked = false;
  private readonly waiting: Frame[] = [];
  /** The number of pending answers: one for each Query and Sync. */
  private unanswered = 0;
  /** The client's prepared statements: by the client's name, the pooler's name and the rest of the frame. */
  private readonly prepared = new Map<string, { readonly name: string; readonly rest: Buffer }>();

  constructor(
    readonly socket: Socket,
    private readonly pool: SessionPool,
    private readonly tracks: boolean,
  ) {
    socket.setNoDelay(true).on('error', () => {});
    eachFrame(
      socket,
      (frame) => this.fromClient(frame),
      () => socket.write(welcome),
    );
  }

  fromServer(frame: Frame): void {
    this.socket.write(frame);
    if (typeOf(frame) !== 'Z') return;
    this.unanswered--;
    const inTransaction = frame[5] !== 'I'.charCodeAt(0);
    const { session } = this;
    if (inTransaction || this.unanswered > 0 || !session) return;
    this.session = undefined;
    this.pool.giveBack(session);
  }

  gone(): void {
    if (this.session) this.pool.replace(this.session);
    this.session = undefined;
  }

  private fromClient(frame: Frame): void {
    if (typeOf(frame) === 'X') this.socket.destroy();
    else if (this.session) this.pass(this.session, frame);
    else this.ask(frame);
  }

  private ask(frame: Frame): void {
    this.waiting.push(frame);
    if (this.asked) return;
    this.asked = true;
    this.pool.lend((session) => this.take(session));
  }

  private take(session: Session): void {
    this.asked = false;
    if (this.socket.destroyed) {
      this.pool.giveBack(session);
      return;
    }
    this.session = session;
    session.client = this;
    this.sessions.add(session);
    for (const frame of this.waiting.splice(0)) this.pass(session, frame);
  }

  private pass(session: Session, frame: Frame): void {
    const type = typeOf(frame);
    if (type === 'Q' || type === 'S') this.unanswered++;
    session.socket.write(this.tracks ? this.renamed(session, type, frame) : frame);
    if (!this.tracks && type === 'P') session.parsing.push({ name: '', own: true });
  }

  /**
   * Rewrites the frame with the pooler's names of statements, and prepends a Parse if this session lacks the
   * statement.
   */
  private renamed(session: Session, type: string, frame: Frame): Buffer {
    if (type === 'P') return this.parse(session, frame);
    if (type !== 'B') return frame;
    const { texts, rest } = textsOf(frame, 2);
    const own = this.prepared.get(texts[1] ?? '');
    if (!own) return frame;
    const bind = makeFrame('B', Buffer.concat([text(texts[0] ?? '', own.name), rest]));
    if (session.known.has(own.name)) return bind;
    session.known.add(own.name);
    session.parsing.push({ name: own.name, own: false });
    return Buffer.concat([makeFrame('P', Buffer.concat([text(own.name), own.rest])), bind]);
  }

  private parse(session: Session, frame: Frame): Buffer {
    const { texts, rest } = textsOf(frame, 1);
    const [given = ''] = texts;
    session.parsing.push({ name: '', own: true });
    if (given === '') return frame;
    const name = `pooled_${createHash('sha256').update(bodyOf(frame)).digest('hex').slice(0, 20)}`;
    this.prepared.set(given, { name, rest });
    session.known.add(name);
    session.closing++;
    // The frame closes the statement first, in case this session knows it. The client gets one answer in both cases.
    return Buffer.concat([
      makeFrame('C', Buffer.concat([Buffer.from('S'), text(name)])),
      makeFrame('P', Buffer.concat([text(name), rest])),
    ]);
  }
}
