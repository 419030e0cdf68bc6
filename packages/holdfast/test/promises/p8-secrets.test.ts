import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import pg from 'pg';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { connect, launch } from '../../src/index.js';
import { administer, emptyDatabase } from '../storage/migrations-support.js';
import { silent } from '../support/backends.js';
import { failure } from '../support/faults.js';
import { recordingLogger, secret, survivingParts } from '../support/secrets.js';

const enc = encodeURIComponent;
/** No server listens there. */
const closed = '127.0.0.1:1';

/** Ways to put a secret into `database`, valid and invalid ones. */
const shapes: Readonly<Record<string, (s: string) => string>> = {
  password: (s) => `postgres://u:${enc(s)}@${closed}/db`,
  'password, not encoded': (s) => `postgres://u:${s}@${closed}/db`,
  'password of digits and more': (s) => `postgres://u:12${s}@${closed}/db`,
  'password behind a port': (s) => `postgres://u:1/${s}@${closed}/db`,
  'password behind a question mark': (s) => `postgres://u:1?${s}=1@${closed}/db`,
  'password behind a hash': (s) => `postgres://u:1#${s}@${closed}/db`,
  'leading blank': (s) => ` postgres://u:${enc(s)}@${closed}/db`,
  'leading line break': (s) => `\npostgres://u:${enc(s)}@${closed}/db`,
  'trailing blank': (s) => `postgres://u:${enc(s)}@${closed}/db \n`,
  'missing colon': (s) => `postgres//u:${enc(s)}@${closed}/db`,
  'missing colon, not encoded': (s) => `postgres//u:${s}@${closed}/db`,
  'missing slash': (s) => `postgres:/u:${enc(s)}@${closed}/db`,
  'missing slashes': (s) => `postgres:u:${enc(s)}@${closed}/db`,
  'semicolon for colon': (s) => `postgres;//u:${enc(s)}@${closed}/db`,
  'missing letter': (s) => `postgre://u:${enc(s)}@${closed}/db`,
  'no scheme': (s) => `u:${enc(s)}@${closed}/db`,
  'slashes only': (s) => `//u:${enc(s)}@${closed}/db`,
  'secret alone': (s) => s,
  'secret for a scheme': (s) => `k${s.replace(/[^a-z0-9]/gi, '')}:x@${closed}/db`,
  'parameter password': (s) => `postgres://${closed}/db?user=u&password=${enc(s)}`,
  'parameter password, not encoded': (s) => `postgres://${closed}/db?user=u&password=${s}`,
  'parameter with a typing mistake': (s) => `postgres://u@${closed}/db?pasword=${enc(s)}`,
  'parameter sslpassword': (s) => `postgres://u@${closed}/db?sslpassword=${enc(s)}`,
  'parameter options': (s) => `postgres://u@${closed}/db?options=${enc(`-c a.b=${s}`)}`,
  'user with an encoded colon': (s) => `postgres://u%3A${enc(s)}@${closed}/db`,
  'user with a colon encoded twice': (s) => `postgres://u%253A${enc(enc(s))}@${closed}/db`,
  'parameter user with a colon': (s) => `postgres://${closed}/db?user=u:${enc(s)}`,
  'several hosts': (s) => `postgres://u:${enc(s)}@one,two/db`,
  'wrong port': (s) => `postgres://u:${enc(s)}@127.0.0.1:port/db`,
  'socket in a folder': (s) => `postgres://u:${enc(s)}@/db?host=/no/such/folder`,
  'socket for a host': (s) => `postgres://u:${enc(s)}@%2Fno%2Fsuch/db`,
  'certificate that is not there': (s) => `postgres://u:${enc(s)}@${closed}/db?sslrootcert=/no/such.pem`,
  'another database': (s) => `mysql://u:${enc(s)}@${closed}/db`,
  'scheme of jdbc': (s) => `jdbc:postgresql://${closed}/db?user=u&password=${s}`,
  'scheme of SQLAlchemy': (s) => `postgresql+psycopg2://u:${enc(s)}@${closed}/db`,
  'file scheme': (s) => `file://u:${enc(s)}@${closed}/db`,
  'behind the scheme of SQLite': (s) => `sqlite://u:${enc(s)}@${closed}/db`,
  'inside the scheme of SQLite': (s) => `sqlite:postgres://u:${enc(s)}@${closed}/db`,
  'string of libpq': (s) => `host=127.0.0.1 port=1 user=u password=${s}`,
  quoted: (s) => `"postgres://u:${enc(s)}@${closed}/db"`,
  'name of the variable': (s) => `DATABASE_URL=postgres://u:${enc(s)}@${closed}/db`,
  'command line': (s) => `psql postgres://u:${enc(s)}@${closed}/db`,
};

/** Returns everything that a failing launch and a failing connect with this database show. */
async function shownOf(database: unknown): Promise<unknown[]> {
  const logger = recordingLogger();
  const given = { name: 'x', database: database as string, logger };
  const errors = [await failure(launch(given)), await failure(connect(given))];
  for (const error of errors)
    expect(error).toMatchObject({ code: expect.stringMatching(/^DATABASE_|^INVALID_OPTION$/) });
  return [...errors, ...errors.map(({ stack }) => stack), logger.lines];
}

describe('P8 secrets in the option database', () => {
  it.each(Object.keys(shapes))('shows no part of the secret: %s', async (shape) => {
    const property = fc.asyncProperty(secret, async (s) => {
      expect(survivingParts(s, await shownOf(shapes[shape]?.(s)))).toEqual([]);
    });
    await fc.assert(property, { numRuns: 15 });
  });

  // The error text comes from the server, which may repeat what it was sent.
  it.each<[string, (url: URL, s: string) => void]>([
    ['password', (url, s) => Object.assign(url, { username: 'nobody_of_this_name', password: enc(s) })],
    ['user with an encoded colon', (url, s) => Object.assign(url, { username: `nobody%3A${enc(s)}` })],
    ['options that the server refuses', (url, s) => url.searchParams.set('options', `-c ${s}`)],
    ['value that the server refuses', (url, s) => url.searchParams.set('options', `-c work_mem=${s}`)],
  ])('shows no part of what a server was sent: %s', async (_, write) => {
    const property = fc.asyncProperty(secret, async (s) => {
      const url = new URL(inject('postgresUrl'));
      write(url, s.replaceAll('%', ''));
      expect(survivingParts(s, await shownOf(url.href))).toEqual([]);
    });
    await fc.assert(property, { numRuns: 10, examples: [['+QQ QQQQQQ']] });
  });

  it('shows no part of the password when the role may not create the tables', async () => {
    const url = new URL(await emptyDatabase());
    url.username = `modest_${randomUUID().slice(0, 8)}`;
    await administer(`create role "${url.username}" login`);
    onTestFinished(() => administer(`drop role "${url.username}"`));
    const property = fc.asyncProperty(secret, async (s) => {
      await administer(`alter role "${url.username}" password ${pg.escapeLiteral(s)}`);
      url.password = enc(s);
      const error = await failure(launch({ name: 'x', database: url.href, logger: silent }));
      expect(error.message).toMatch(/permission denied/);
      expect(survivingParts(s, [error, error.stack])).toEqual([]);
    });
    await fc.assert(property, { numRuns: 5 });
  });

  const url = `postgres://u:QZXJKWVqzxjkwv79@${closed}/db`;

  it.each([
    'poolSize',
    'workflows',
    'queues',
    'schedules',
    'listen',
    'logger',
    'migrate',
    'recovery',
    'retention',
    'suspendAfter',
  ])('shows no part of the secret if the URL is given as %s', async (option) => {
    const error = await failure(launch({ name: 'test', database: 'sqlite::memory:', logger: silent, [option]: url }));
    expect(survivingParts('QZXJKWVqzxjkwv79', error)).toEqual([]);
  });

  it('shows no part of the secret if the URL is the name of an option', async () => {
    for (const options of [{ [url]: true }, { database: { [url]: true } }, { recovery: { [url]: true } }]) {
      const error = await failure(launch({ name: 'test', logger: silent, ...options } as never));
      expect(error.code).toBe('INVALID_OPTION');
      expect(survivingParts('QZXJKWVqzxjkwv79', error)).toEqual([]);
    }
  });

  it('shows no part of a value that is not a string', async () => {
    for (const database of [
      [`postgres://u:jkwvzx79@${closed}/db`],
      7979797979,
      new URL(`postgres://u:jkwvzx79@${closed}/db`),
    ]) {
      expect(survivingParts('jkwvzx79', await shownOf(database))).toEqual([]);
      expect(survivingParts('7979797979', await shownOf(database))).toEqual([]);
    }
  });
});
