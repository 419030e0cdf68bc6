import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { bodyOf, eachFrame, type Frame, makeFrame, Statements, text, typeOf } from './frames.js';

/**
 * What befalls a connection, at a chosen statement or as soon as it is opened:
 *
 * - `cut-before`: both ends are closed; the server never gets the statement.
 * - `cut-after`: the server has answered; the answer is swallowed, then both ends are closed.
 * - `black-hole`: from here on nothing passes in either direction, and both sockets stay open. That one side closes its own
 *   does not pass either: the session of the server stays, in the middle of whatever it was.
 * - `swallow`: the server gets the statement and answers; neither that nor anything later arrives. Sockets stay open.
 * - `delay`: the statement is held back for `ms`, and everything of its connection behind it.
 * - `split`: from here on both directions arrive in packets of a few bytes.
 * - `reset`: both ends get a TCP reset; the server never gets the statement.
 * - `error`: the server never gets the statement; the client is answered with an error of this `state`.
 */
export type FaultKind = (typeof faultKinds)[number];
const faultKinds = ['cut-before', 'cut-after', 'black-hole', 'swallow', 'delay', 'split', 'reset', 'error'] as const;

export interface Fault {
  readonly kind: FaultKind;
  /** A statement by its name or text, or a pattern for either. Left out: the next connections, as they are opened. */
  readonly at?: string | RegExp;
  /** Which of them, counted from now (default the first). */
  readonly nth?: number;
  /** How many of them in a row (default 1). */
  readonly times?: number;
  /** How long a `delay` is. */
  readonly ms?: number;
  /** The SQLSTATE of an `error`. */
  readonly state?: string;
  /** Runs before a cut, while the client still waits: what others do in that time. */
  readonly meanwhile?: () => Promise<unknown>;
}

/** A fault that was armed. A run in which it has not landed proves nothing. */
interface Landing {
  /** How often it has happened. */
  readonly count: number;
  /** Resolves when it has happened as often as it was to. */
  readonly landed: Promise<void>;
  /** It does not happen any more. */
  disarm(): void;
}

/** A TCP proxy between an app and its Postgres that reads the frames as they pass, and does what it is told to. */
export interface FaultProxy {
  /** The URL of the database, by way of the proxy. */
  readonly url: string;
  /** Every statement that clients have sent, in order. */
  readonly statements: readonly string[];
  /** What it did, by kind of fault; connections that it severed, holed or refused as a whole count as well. */
  readonly counts: Readonly<Record<FaultKind | 'sever' | 'partition' | 'refuse', number>>;
  readonly connections: number;
  arm(fault: Fault): Landing;
  /** Cuts every connection that there is now. Returns how many. */
  sever(): number;
  /** While it is on, all connections, those to come included, are black holes; those that were stay so. */
  partition(on: boolean): void;
  /** While it is on, new connections are closed at once. */
  refuse(on: boolean): void;
  /** From now on new connections go to the server of this URL, as when an address moves. Others stay where they are. */
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

  /** Whether it befalls this statement, or (undefined) a connection that was just opened. */
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

/** Puts a proxy before the server of this URL. */
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

  /** The fault that befalls this statement (or connection), if any. */
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

/** One client with a connection to the server of its own. */
class Connection {
  readonly closed: Promise<void>;
  private readonly statements = new Statements();
  private readonly toServer: Lane;
  private readonly toClient: Lane;
  private silent = false;
  /** Parse, Bind and Describe go out with the Execute behind them: what the server never gets, it gets nothing of. */
  private readonly unsent: Frame[] = [];
  /** A fault that comes with the end of the answer. */
  private awaiting: Armed | undefined;
  /** Whether the server is in a transaction, by its last answer. */
  private status = 'I';

  constructor(
    private readonly proxy: FrameProxy,
    private readonly client: Socket,
    private readonly upstream: Socket,
  ) {
    [this.toServer, this.toClient] = [new Lane(upstream), new Lane(client)];
    // Either end may break at any time; the other one is closed then, unless nothing passes between them any more.
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

  /** After an Execute the client's Sync goes through, and the server answers that; a Query is answered here altogether. */
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

/** One direction of a connection: what is written arrives in order, perhaps later, perhaps in pieces, perhaps not. */
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

  /** After what was written has arrived. */
  end(): void {
    if (this.working) this.later(async () => this.socket.destroySoon());
    else this.socket.destroySoon();
  }

  /** What is on its way, and all that comes, is lost. */
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

  /** Each packet by itself: the next one is written only when the system has taken this one. */
  private async send(bytes: Buffer): Promise<void> {
    for (const piece of this.splits ? pieces(bytes) : [bytes]) {
      if (this.closed || this.socket.destroyed) return;
      await new Promise((resolve) => this.socket.write(piece, resolve));
    }
  }
}

const maxTinyBytes = 400;

/** One to five bytes each; of a long frame only the beginning, where its structure is. */
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
