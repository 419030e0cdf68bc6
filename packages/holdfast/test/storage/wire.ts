import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/**
 * A proxy between an app and its Postgres that reads the frames as they pass. It counts the real traffic on the wire,
 * and breaks the connection at one chosen statement.
 *
 * A frame is a type byte, four bytes of length (which count themselves) and a body; only the very first frame of a
 * client has no type byte. The frames that matter here:
 *
 *   from the client: Parse 'P' (name, text), Bind 'B' (portal, statement), Execute 'E', simple Query 'Q' (text)
 *   from the server: NotificationResponse 'A', ErrorResponse 'E', ReadyForQuery 'Z' (status 'I': no open transaction)
 *
 * Outside a transaction block a statement commits just before its ReadyForQuery.
 */
export interface Wire {
  /** The URL of the database, through the proxy. */
  readonly url: string;
  /** Every statement that the server was given, by its prepared name or else by its text. */
  readonly statements: readonly string[];
  /** How often the server reported success with no transaction left open. */
  readonly commits: number;
  /** Resets the counters. */
  reset(): void;
  /** Arms one fault. Resolves when it has happened. */
  inject(fault: Fault): Promise<void>;
  /** Drops notifications from now on, as behind a pooler that uses one session for LISTEN and others to notify. */
  swallowNotifications(swallow: boolean): void;
  /** Keeps the listening connections open, but drops everything they receive. Returns how many there are. */
  deafen(): number;
}

/**
 * The fault that happens to the next statement of this name (or to the nth from now):
 *
 * - `cut-before`: the connection breaks, and the server never gets the statement.
 * - `cut-after`: the server has committed and answered; the connection breaks before the answer arrives.
 * - `black-hole`: the server has committed and answered, but nothing arrives, and the connection stays open.
 */
export interface Fault {
  readonly statement: string;
  readonly nth?: number;
  readonly kind: 'cut-before' | 'cut-after' | 'black-hole';
  /** Runs while the client still waits for its answer, for example to act as another process. */
  readonly meanwhile?: () => Promise<unknown>;
}

interface Armed extends Fault {
  remaining: number;
  readonly happened: () => void;
}

/** Puts a wire before the server of this URL, until the end of the test. */
export async function openWire(target: string): Promise<Wire> {
  const counts = new Counts();
  const ears = new Set<{ deaf: boolean }>();
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      // Either end may break at any time. The close below notifies the other end.
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    }
    relay(client, upstream, counts, ears);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const url = new URL(target);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    statements: counts.statements,
    get commits() {
      return counts.commits;
    },
    reset: () => counts.reset(),
    inject: (fault) => counts.arm(fault),
    swallowNotifications: (swallow) => {
      counts.swallows = swallow;
    },
    deafen: () => {
      for (const each of ears) each.deaf = true;
      return ears.size;
    },
  };
}

class Counts {
  readonly statements: string[] = [];
  commits = 0;
  swallows = false;
  private armed: Armed | undefined;

  reset(): void {
    this.statements.length = 0;
    this.commits = 0;
  }

  arm(fault: Fault): Promise<void> {
    return new Promise((happened) => {
      this.armed = { ...fault, remaining: fault.nth ?? 1, happened };
    });
  }

  /** Returns the fault of this statement, if it has one. */
  faultAt(statement: string): Armed | undefined {
    const { armed } = this;
    if (armed?.statement !== statement || --armed.remaining > 0) return undefined;
    this.armed = undefined;
    return armed;
  }
}

/** Carries one connection both ways. */
function relay(client: Socket, upstream: Socket, counts: Counts, ears: Set<{ deaf: boolean }>): void {
  const session = new Session(counts);
  const ear = { deaf: false };
  const cut = async (fault: Armed): Promise<void> => {
    await fault.meanwhile?.();
    client.destroy();
    upstream.destroy();
    fault.happened();
  };
  let fault: Armed | undefined;
  eachFrame(client, 'untyped start', (frame) => {
    const struck = fault !== undefined;
    fault ??= session.fromClient(frame);
    if (session.listens) ears.add(ear);
    if (fault?.kind !== 'cut-before') upstream.write(frame);
    else if (!struck) void cut(fault);
  });
  eachFrame(upstream, 'typed', (frame) => {
    const answered = session.fromServer(frame);
    if (ear.deaf || (counts.swallows && isNotification(frame))) return;
    if (!fault) client.write(frame);
    else if (answered && fault.kind === 'cut-after') void cut(fault);
    else if (answered) fault.happened();
  });
  client.on('close', () => {
    ears.delete(ear);
    upstream.destroy();
  });
  upstream.on('close', () => client.destroy());
}

function isNotification(frame: Buffer): boolean {
  return frame[0] === 'A'.charCodeAt(0);
}

/** The state of one connection, derived from its frames. */
class Session {
  private readonly texts = new Map<string, string>();
  private bound = '';
  private working = false;
  private failed = false;
  /** True after the connection has sent a LISTEN. */
  listens = false;

  constructor(private readonly counts: Counts) {}

  /** Returns the fault of the statement that this frame would execute. */
  fromClient(frame: Buffer): Armed | undefined {
    const type = String.fromCharCode(frame[0] ?? 0);
    if (type === 'P') {
      const [name = '', text = ''] = texts(frame, 2);
      this.texts.set(name, text);
    }
    if (type === 'B') {
      const [, name = ''] = texts(frame, 2);
      // A statement with several texts is prepared under a name for each: `noun.verb.variant`.
      this.bound = name.split('.').slice(0, 2).join('.') || (this.texts.get(name) ?? '');
    }
    if (type !== 'E' && type !== 'Q') return undefined;
    const statement = type === 'E' ? this.bound : (texts(frame, 1)[0] ?? '');
    if (/^listen /i.test(statement)) this.listens = true;
    const fault = this.counts.faultAt(statement);
    if (fault?.kind === 'cut-before') return fault;
    this.counts.statements.push(statement);
    this.working = true;
    return fault;
  }

  /** Returns true if this frame ends the answer to a statement. */
  fromServer(frame: Buffer): boolean {
    const type = String.fromCharCode(frame[0] ?? 0);
    if (type === 'E') this.failed = true;
    if (type !== 'Z') return false;
    const answered = this.working;
    if (answered && !this.failed && frame[5] === 'I'.charCodeAt(0)) this.counts.commits++;
    [this.working, this.failed] = [false, false];
    return answered;
  }
}

/** Returns the zero-terminated texts at the beginning of a frame's body. */
function texts(frame: Buffer, count: number): string[] {
  const found: string[] = [];
  let at = 5;
  while (found.length < count) {
    const end = frame.indexOf(0, at);
    found.push(frame.toString('utf8', at, end));
    at = end + 1;
  }
  return found;
}

/** Calls `use` with each whole frame, its type byte included. A client's first frame has none. */
function eachFrame(socket: Socket, beginning: 'typed' | 'untyped start', use: (frame: Buffer) => void): void {
  let typeBytes = beginning === 'typed' ? 1 : 0;
  let buffered: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
    while (buffered.length >= typeBytes + 4) {
      const size = typeBytes + buffered.readUInt32BE(typeBytes);
      if (buffered.length < size) return;
      const frame = buffered.subarray(0, size);
      buffered = buffered.subarray(size);
      typeBytes = 1;
      use(frame);
    }
  });
}
