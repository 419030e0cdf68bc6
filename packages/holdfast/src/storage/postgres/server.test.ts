import pg from 'pg';
import { expect, it } from 'vitest';
import { classifyPostgres } from './failures.js';
import { Server } from './server.js';

const fetchFailed = async () => {
  throw new TypeError('fetch failed');
};

// A TypeError of the driver counts as a refused statement, which Holdfast records as the failure of a step.
it('classifies a failed password function as a lost connection, even after a TypeError as of fetch()', async () => {
  const client = new Server(pg, { config: { host: 'h', user: 'u', password: fetchFailed } }).client({});
  const askPassword = (client as unknown as { readonly password: () => Promise<string> }).password;
  const error = await askPassword().catch((reason: unknown) => reason);
  expect(classifyPostgres(error)).toBe('lost');
});

it('classifies a failed onConnect as a lost connection', async () => {
  const server = new Server(pg, { config: { host: 'h', user: 'u', onConnect: fetchFailed } });
  const error = await server.prepare(server.client({})).catch((reason: unknown) => reason);
  expect(classifyPostgres(error)).toBe('lost');
});
