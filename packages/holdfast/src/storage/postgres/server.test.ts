import pg from 'pg';
import { expect, it } from 'vitest';
import { classifyPostgres } from './failures.js';
import { Server } from './server.js';

const fetchFailed = async () => {
  throw new TypeError('fetch failed');
};

// Refused statements are recorded as failures of steps that have run.
it('takes the failure of a password function for a lost connection, even if it is a TypeError, as that of fetch() is', async () => {
  const client = new Server(pg, { config: { host: 'h', user: 'u', password: fetchFailed } }).client({});
  const ask = (client as unknown as { readonly password: () => Promise<string> }).password;
  const error = await ask().catch((reason: unknown) => reason);
  expect(classifyPostgres(error)).toBe('lost');
});

it('takes the failure of onConnect for a lost connection, too', async () => {
  const server = new Server(pg, { config: { host: 'h', user: 'u', onConnect: fetchFailed } });
  const error = await server.prepare(server.client({})).catch((reason: unknown) => reason);
  expect(classifyPostgres(error)).toBe('lost');
});
