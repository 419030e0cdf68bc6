import { createHash } from 'node:crypto';

/**
 * The channels by which processes tell each other things, on Postgres. One for all that concerns every process, and for
 * messages, events and streams 256 more, among which these topics are spread by their hash: a process listens only to those
 * that bring something for which something in it waits.
 */
export function generalChannel(schema: string): string {
  const long = Buffer.byteLength(schema) > 40;
  return `holdfast_${long ? createHash('sha256').update(schema).digest('hex').slice(0, 32) : schema}`;
}

const names = new Map<string, readonly string[]>();

/** The channel of a topic `message:...`, `event:...` or `stream:...`. In SQL: {@link channelInSql}. */
export function channelOf(general: string, topic: string): string {
  let channels = names.get(general);
  if (!channels) {
    // One text for each, however many wait.
    channels = Array.from({ length: 256 }, (_, i) => `${general}_${i.toString(16).padStart(2, '0')}`);
    names.set(general, channels);
  }
  return channels[createHash('sha256').update(topic).digest()[0] ?? 0] as string;
}

export function channelInSql(general: string, topic: string): string {
  const prefix = `${general}_`.replaceAll("'", "''");
  return `concat('${prefix}', left(encode(sha256(convert_to(${topic}, 'UTF8')), 'hex'), 2))`;
}
