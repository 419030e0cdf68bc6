import { createHash } from 'node:crypto';

/**
 * The channels for notifications between processes on Postgres. One general channel carries everything that concerns
 * every process. Notifications about messages, events and streams are distributed over 256 more channels by the hash of
 * their topic. A process listens only to the channels of the topics for which something in the process waits.
 */
export function generalChannel(schema: string): string {
  const isLong = Buffer.byteLength(schema) > 40;
  return `holdfast_${isLong ? createHash('sha256').update(schema).digest('hex').slice(0, 32) : schema}`;
}

const channelsByGeneral = new Map<string, readonly string[]>();

/** Returns the channel of a topic `message:...`, `event:...` or `stream:...`. In SQL: {@link channelInSql}. */
export function channelOf(general: string, topic: string): string {
  let channels = channelsByGeneral.get(general);
  if (!channels) {
    // The names are shared: each name exists once, however many waits use it.
    channels = Array.from({ length: 256 }, (_, i) => `${general}_${i.toString(16).padStart(2, '0')}`);
    channelsByGeneral.set(general, channels);
  }
  return channels[createHash('sha256').update(topic).digest()[0] ?? 0] as string;
}

export function channelInSql(general: string, topic: string): string {
  const prefix = `${general}_`.replaceAll("'", "''");
  return `concat('${prefix}', left(encode(sha256(convert_to(${topic}, 'UTF8')), 'hex'), 2))`;
}
