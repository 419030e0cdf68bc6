import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { bodyOf, eachFrame, type Frame, makeFrame, Statements, text, typeOf } from './frames.js';

/**
 * What happens to a connection, at a chosen statement or as soon as the connection is opened:
 *
 * - `cut-before`: both ends are closed; the server never gets the statement.
 * - `cut-after`: the server has answered; the answer is swallowed, then both ends are closed.
 * - `black-hole`: from here on nothing passes in either direction, and both sockets stay open. A close by one side
 *   does not pass either: the server session stays open, even in the middle of a transaction.
 * - `swallow`: the server gets the statement and answers; neither the answer nor anything later arrives. Sockets stay
 *   open.
 * - `delay`: the statement is held back for `ms`, and so are all later statements of its connection.
 * - `split`: from here on both directions arrive in packets of a few bytes.
 * - `reset`: both ends get a TCP reset; the server never gets the statement.
 * - `error`: the server never gets the statement; the proxy answers the client with an error of this `state`.
 */
export type FaultKind = (typeof faultKinds)[number];
const faultKinds = ['cut-before', 'cut-after', 'black-hole', 'swallow', 'delay', 'split', 'reset', 'error'] as const;

export interface Fault {
  readonly kind: FaultKind;
  /** A statement by its name or text, or a pattern for either. Without `at`, the fault applies to new connections. */
  readonly at?: string | RegExp;
  /** Which match to strike first, counted from now (default: the first). */
  readonly nth?: number;
  /** How many matches in a row to strike (default 1). */
  readonly times?: number;
  /** How long a `delay` is. */
  readonly ms?: number;
  /** The SQLSTATE of an `error`. */
  readonly state?: string;
  /** Runs before a cut, while the client still waits. It stands for what other processes do in that time. */
  readonly meanwhile?: () => Promise<unknown>;
}

/** An armed fault. A run in which the fault has not landed proves nothing. */
interface Landing {
  /** How often the fault has landed. */
  readonly count: number;
  /** Resolves when the fault has landed `times` times. */
  readonly landed: Promise<void>;
  /** Stops the fault from landing again. */
  disarm(): void;
}

/** A TCP proxy between an app and its Postgres server. It reads the frames that pass, and injects faults. */
export interface FaultProxy {
  /** The URL of the database through the proxy. */
  readonly url: string;
  /** Every statement that clients have sent, in order. */
  readonly statements: readonly string[];
  /**
   * The number of injected faults by kind, including connections that were severed, partitioned or refused as a whole.
   */
  readonly counts: Readonly<Record<FaultKind | 'sever' | 'partition' | 'refuse', number>>;
  readonly connections: number;
  arm(fault: Fault): Landing;
  /** Cuts every open connection. Returns their number. */
  sever(): number;
  /** While it is on, all connections, old and new, become black holes. They stay black holes when it is off again. */
  partition(on: boolean): void;
  /** While it is on, new connections are closed at once. */
  refuse(on: boolean): void;
  /**
   * From now on new connections go to the server of this URL, like after an address moves. Open connections do not
   * move.
   */
  moveTo(target: string): void;
  close(): Promise<void>;
}

class Armed implements Landing {
  count = 0;
  readonly landed: Promise<void>;
  private seen = 0;
  private left: number;
  private resolve = (): void => {};

  constructor(readonly fault: Fault) {
    this.left = fault.times ?? 1;
    this.landed = new Promise((resolve) => {
      this.resolve = resolve;
    });
  }

  /** Returns true if the fault strikes this statement, or (undefined) a connection that was just opened. */
  takes(statement: string | undefined): boolean {
    const { at, nth = 1 } = this.fault;
    if (this.left === 0 || (at === undefined) !== (statement === undefined)) return false;
    if (at !== undefined && !(typeof at === 'string' ? at === statement : at.test(statement as string))) return false;
    if (++this.seen < nth) return false;
    this.left--;
    return true;
  }

  happened(): void {
    this.count++;
    if (this.count === (this.fault.times ?? 1)) this.resolve();
  }

  disarm(): void {
    this.left = 0;
  }
}

/** Starts a proxy in front of the server of this URL. */
export async function openProxy(target: string): Promise<FaultProxy> {
  const proxy = new FrameProxy(target);
  await proxy.listen();
  return proxy;
}

class FrameProxy implements FaultProxy {
  readonly statements: string[] = [];
  readonly counts: FaultProxy['counts'] & Record<string, number>;
  private armed: Armed[] = [];
  private readonly open = new Set<Connection>();
  private readonly server = createServer((client) => this.accept(client));
  private partitioned = false;
  private refusing = false;

  constructor(private target: string) {
    const kinds = [...faultKinds, 'sever', 'partition', 'refuse'] as const;
    this.counts = Object.fromEntries(kinds.map((kind) => [kind, 0])) as typeof this.counts;
  }

  get url(): string {
    const url = new URL(this.target);
    url.host = `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
    return url.href;
  }

  get connections(): number {
    return this.open.size;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
  }

  arm(fault: Fault): Landing {
    const armed = new Armed(fault);
    this.armed = [...this.armed.filter((each) => each.count < (each.fault.times ?? 1)), armed];
    return armed;
  }

  sever(): number {
    const all = [...this.open];
    for (const each of all) each.end();
    this.note('sever', all.length);
    return all.length;
  }

  partition(on: boolean): void {
    this.partitioned = on;
    if (!on) return;
    for (const each of this.open) each.fallSilent();
    this.note('partition', this.open.size);
  }

  refuse(on: boolean): void {
    this.refusing = on;
  }

  moveTo(target: string): void {
    const { host } = new URL(target);
    const moved = new URL(this.target);
    moved.host = host;
    this.target = moved.href;
  }

  async close(): Promise<void> {
    for (const each of this.open) each.end();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  /** Returns the fault that strikes this statement or connection, if any. */
  befalls(statement: string | undefined): Armed | undefined {
    if (statement !== undefined) this.statements.push(statement);
    return this.armed.find((each) => each.takes(statement));
  }

  landed(armed: Armed): void {
    this.note(armed.fault.kind, 1);
    armed.happened();
  }

  private note(kind: string, times: number): void {
    this.counts[kind] = (this.counts[kind] ?? 0) + times;
  }

  private accept(client: Socket): void {
    if (this.refusing) {
      this.note('refuse', 1);
      client.on('error', () => {}).destroy();
      return;
    }
    const { hostname, port } = new URL(this.target);
    const connection = new Connection(this, client, connect(Number(port), hostname));
    this.open.add(connection);
    void connection.closed.then(() => this.open.delete(connection));
    if (!this.partitioned) return;
    connection.fallSilent();
    this.note('partition', 1);
  }
}

/** A client connection with its own connection to the server. */
class Connection {
  readonly closed: Promise<void>;
  private readonly statements = new Statements();
  private readonly toServer: Lane;
  private readonly toClient: Lane;
  private silent = false;
  /**
   * Parse, Bind and Describe are sent together with their Execute, so a dropped statement leaves no frame on the
   * server.
   */
  private readonly unsent: Frame[] = [];
  /** A fault that strikes at the end of the answer. */
  private awaiting: Armed | undefined;
  /** The transaction status of the server in its last answer. */
  private status = 'I';

  constructor(
    private readonly proxy: FrameProxy,
    private readonly client: Socket,
    private readonly upstream: Socket,
  ) {
    [this.toServer, this.toClient] = [new Lane(upstream), new Lane(client)];
    // Either end may break at any time. The proxy then closes the other end, unless the connection is a black hole.
    for (const socket of [client, upstream]) socket.setNoDelay(true).on('error', () => {});
    const ends = [client, upstream].map((socket) => new Promise((resolve) => socket.on('close', resolve)));
    this.closed = Promise.all(ends).then(() => {});
    client.on('close', () => this.silent || upstream.destroy());
    upstream.on('close', () => this.silent || this.toClient.end());
    eachFrame(
      client,
      (frame) => this.fromClient(frame),
      (startup) => this.toServer.write(startup),
    );
    eachFrame(upstream, (frame) => this.fromServer(frame));
    const armed = proxy.befalls(undefined);
    if (armed) this.strike(armed);
  }

  end(): void {
    this.client.destroy();
    this.upstream.destroy();
  }

  fallSilent(): void {
    this.silent = true;
    this.toServer.close();
    this.toClient.close();
  }

  private fromClient(frame: Frame): void {
    if (this.silent) return;
    const statement = this.statements.executedBy(frame);
    const armed = statement === undefined ? undefined : this.proxy.befalls(statement);
    if (armed?.fault.kind === 'error') this.answerWithError(armed, typeOf(frame));
    else if (armed) this.strike(armed);
    if (this.silent || armed?.fault.kind === 'error') return;
    this.unsent.push(frame);
    if ('PBD'.includes(typeOf(frame))) return;
    for (const each of this.unsent.splice(0)) this.toServer.write(each);
  }

  /**
   * After an Execute the client's Sync passes, and the server answers the Sync. A Query gets its whole answer here.
   */
  private answerWithError(armed: Armed, type: string): void {
    this.unsent.length = 0;
    const fields = text('SERROR', `C${armed.fault.state}`, 'Mmade up by the proxy', '');
    this.toClient.write(makeFrame('E', fields));
    if (type === 'Q') this.toClient.write(makeFrame('Z', Buffer.from(this.status === 'I' ? 'I' : 'E')));
    this.proxy.landed(armed);
  }

  private strike(armed: Armed): void {
    const { kind, ms = 0 } = armed.fault;
    if (kind === 'cut-after' || kind === 'swallow') {
      this.awaiting = armed;
      this.toClient.close();
    } else if (kind === 'delay') {
      this.toServer.hold(ms, () => this.proxy.landed(armed));
    } else {
      if (kind === 'split') this.toServer.splits = this.toClient.splits = true;
      else this.fallSilent();
      void this.finish(armed);
    }
  }

  private async finish(armed: Armed): Promise<void> {
    const { kind, meanwhile } = armed.fault;
    await meanwhile?.();
    if (kind === 'cut-before' || kind === 'cut-after') this.end();
    if (kind === 'reset') {
      this.client.resetAndDestroy();
      this.upstream.resetAndDestroy();
    }
    if (kind === 'swallow') this.fallSilent();
    this.proxy.landed(armed);
  }

  private fromServer(frame: Frame): void {
    this.toClient.write(frame);
    if (typeOf(frame) !== 'Z') return;
    this.status = bodyOf(frame).toString('latin1');
    if (!this.awaiting) return;
    const armed = this.awaiting;
    this.awaiting = undefined;
    void this.finish(armed);
  }
}

/** One direction of a connection. Bytes arrive in order, perhaps late, in pieces, or not at all. */
class Lane {
  splits = false;
  private waiting: (() => Promise<unknown>)[] = [];
  private working = false;
  private closed = false;

  constructor(private readonly socket: Socket) {}

  write(bytes: Buffer): void {
    if (this.closed) return;
    if (!this.working && !this.splits) this.socket.write(bytes);
    else this.later(() => this.send(bytes));
  }

  hold(ms: number, over: () => void): void {
    this.later(() => new Promise<void>((resolve) => setTimeout(resolve, ms)).then(over));
  }

  /** Closes the socket after all written bytes have arrived. */
  end(): void {
    if (this.working) this.later(async () => this.socket.destroySoon());
    else this.socket.destroySoon();
  }

  /** Drops all pending and later bytes. */
  close(): void {
    this.closed = true;
  }

  private later(work: () => Promise<unknown>): void {
    this.waiting.push(work);
    if (!this.working) void this.work();
  }

  private async work(): Promise<void> {
    this.working = true;
    for (let next = this.waiting.shift(); next; next = this.waiting.shift()) await next();
    this.working = false;
  }

  /** Sends each packet separately: the next packet is written only when the system has taken this one. */
  private async send(bytes: Buffer): Promise<void> {
    for (const piece of this.splits ? pieces(bytes) : [bytes]) {
      if (this.closed || this.socket.destroyed) return;
      await new Promise((resolve) => this.socket.write(piece, resolve));
    }
  }
}

const maxTinyBytes = 400;

/** Pieces of one to five bytes. Only the beginning of a long frame is split, because its structure is there. */
function pieces(bytes: Buffer): Buffer[] {
  const found: Buffer[] = [];
  let at = 0;
  while (at < Math.min(bytes.length, maxTinyBytes)) {
    const size = 1 + ((at * 7 + bytes.length) % 5);
    found.push(bytes.subarray(at, at + size));
    at += size;
  }
  if (at < bytes.length) found.push(bytes.subarray(at));
  return found;
}
