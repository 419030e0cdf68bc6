import type { Socket } from 'node:net';

/**
 * Frames of the Postgres protocol, version 3: a type byte, four bytes of length (which count themselves) and a body.
 * Only the very first frame of a client, the startup, has no type byte.
 *
 *   from the client: Query 'Q' (text); Parse 'P' (name, text), Bind 'B' (portal, name), Execute 'E', Sync 'S'
 *   from the server: NotificationResponse 'A', ErrorResponse 'E', ReadyForQuery 'Z' (status 'I': no transaction is open)
 */
export type Frame = Buffer;

export function typeOf(frame: Frame): string {
  return String.fromCharCode(frame[0] ?? 0);
}

export function bodyOf(frame: Frame): Buffer {
  return frame.subarray(5);
}

export function makeFrame(type: string, body: Buffer): Frame {
  const head = Buffer.alloc(5);
  head.write(type, 0, 'latin1');
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

/** Splits the zero-terminated texts at the beginning of a frame's body from the bytes that follow them. */
export function textsOf(frame: Frame, count: number): { readonly texts: string[]; readonly rest: Buffer } {
  const texts: string[] = [];
  let at = 5;
  while (texts.length < count) {
    const end = frame.indexOf(0, at);
    if (end < 0) throw new Error(`A frame of type ${typeOf(frame)} ends within a text.`);
    texts.push(frame.toString('utf8', at, end));
    at = end + 1;
  }
  return { texts, rest: frame.subarray(at) };
}

export function text(...all: string[]): Buffer {
  return Buffer.concat(all.map((each) => Buffer.from(`${each}\0`, 'utf8')));
}

/** Calls `use` with each whole frame. The first frame of a client has no type byte, and goes to `start`. */
export function eachFrame(socket: Socket, use: (frame: Frame) => void, start?: (frame: Buffer) => void): void {
  let begun = start === undefined;
  let buffered: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
    for (;;) {
      const typeBytes = begun ? 1 : 0;
      if (buffered.length < typeBytes + 4) return;
      const size = typeBytes + buffered.readUInt32BE(typeBytes);
      if (buffered.length < size) return;
      const frame = buffered.subarray(0, size);
      buffered = buffered.subarray(size);
      if (begun) use(frame);
      else start?.(frame);
      begun = true;
    }
  });
}

/** The statements that a client's connection sends, as far as its frames show them. */
export class Statements {
  private readonly texts = new Map<string, string>();
  private bound = '';

  /** The statement that this frame would execute: its prepared name (without the variant), or else its text. */
  executedBy(frame: Frame): string | undefined {
    const type = typeOf(frame);
    if (type === 'P') {
      const [name = '', sql = ''] = textsOf(frame, 2).texts;
      this.texts.set(name, sql);
    }
    if (type === 'B') {
      const name = textsOf(frame, 2).texts[1] ?? '';
      // A statement with several texts is prepared under one name per text: `noun.verb.variant`.
      this.bound = name.split('.').slice(0, 2).join('.') || (this.texts.get('') ?? '');
    }
    if (type === 'Q') return textsOf(frame, 1).texts[0];
    return type === 'E' ? this.bound : undefined;
  }
}
