import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../src/storage/database.js';
import { openStorage } from '../../src/storage/open.js';
import { columnLiteral } from '../../src/storage/postgres/array-literal.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { SqlMessages } from '../../src/storage/sql/messages.js';
import { newWorkflow, writer } from '../storage/contract-support.js';
import { message } from '../storage/talk-support.js';
import { silent } from '../support/backends.js';
import { type OwnPostgres, startOwnPostgres } from './own-postgres.js';

/** A message that is seen before it is durable, on a server that crashes. It flushes nothing by itself for ten seconds. */
describe('a message that was sent early, and a crash of Postgres', () => {
  let server: OwnPostgres;
  beforeAll(async () => {
    server = await startOwnPostgres({ wal_writer_delay: '10s', fsync: 'on', synchronous_commit: 'on' });
    const options = { url: server.url, schema: 'dbos', migrate: true, logger: silent, applicationName: 'early' };
    const storage = await openStorage(options);
    await storage.workflows.insertMany(writer, [newWorkflow('a')]);
    await storage.close();
  }, 60_000);
  afterAll(() => server.stop());

  /** By a session of its own for each statement: none outlives a crash. */
  async function query(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = new pg.Client(server.url);
    client.on('error', () => {});
    await client.connect();
    const { rows } = await client.query(text, [...values]);
    await client.end();
    return rows;
  }

  /** Sends, with something that happens before the message is settled for the first time. Returns the statements, too. */
  async function send(messageId: string, beforeSettled: () => Promise<unknown> = async () => {}) {
    const made: string[] = [];
    let isFirst = true;
    const on: Pick<Database, 'dialect' | 'query' | 'batch'> = {
      dialect: postgresDialect('dbos'),
      query: async ({ name, text }, values) => {
        made.push(name);
        if (isFirst) await beforeSettled();
        isFirst = false;
        return query(text, values);
      },
      batch: async ({ name, variant, text, columns }, shared, rows) => {
        made.push([name, variant].filter(Boolean).join('.'));
        const names = Object.keys(columns) as (keyof (typeof rows)[number])[];
        return query(text, [...shared, ...names.map((column) => columnLiteral(rows, column))]);
      },
    };
    const stored = await new SqlMessages(on as Database).sendEarly([message(messageId, 'a')]);
    return { stored: [...stored], made };
  }

  const found = (id: string) => query('select consumed from dbos.notifications where message_uuid = $1', [id]);

  it('outlives it as soon as the send has resolved', async () => {
    expect(await send('acknowledged')).toEqual({
      stored: ['acknowledged'],
      made: ['messages.send.early', 'messages.settle'],
    });
    await server.restart();
    expect(await found('acknowledged')).toEqual([{ consumed: false }]);
  });

  it('outlives it, although nobody has waited for that, once it has been consumed', async () => {
    const { made } = await send('consumed', async () => {
      await query("update dbos.notifications set consumed = true where message_uuid = 'consumed'");
      await server.restart();
    });
    expect(made).toEqual(['messages.send.early', 'messages.settle']);
    expect(await found('consumed')).toEqual([{ consumed: true }]);
  });

  it('was seen, is lost with it, and is sent again before the send resolves', async () => {
    // The server may just then have flushed it after all, by chance: then it is still there, and settled.
    for (let n = 0, lost = false; !lost; n++) {
      const id = `early ${n}`;
      const seen: number[] = [];
      const { stored, made } = await send(id, async () => {
        seen.push((await found(id)).length);
        await server.restart();
        seen.push((await found(id)).length);
      });
      lost = seen[1] === 0;
      expect(stored).toEqual([id]);
      expect(seen).toEqual([1, lost ? 0 : 1]);
      expect(made).toEqual(['messages.send.early', 'messages.settle', ...(lost ? ['messages.send'] : [])]);
      expect(n).toBeLessThan(5);
    }
    await server.restart();
    const rows = await query("select message_uuid from dbos.notifications where message_uuid like 'early %'");
    expect(rows.length).toBeGreaterThan(0);
  });
});
