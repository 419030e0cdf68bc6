import { readFile } from 'node:fs/promises';
import pg from 'pg';
import { expect, it } from 'vitest';
import { describeBackends } from '../support/backends.js';

const page = await readFile(new URL('../../../../docs/operate/debugging.md', import.meta.url), 'utf8');

describeBackends(
  'docs/operate/debugging.md',
  (backend) => {
    it('has only queries that fit the tables', async () => {
      const [, sql = ''] = /```sql\n([\s\S]*?)```/.exec(page) ?? [];
      const queries = sql.split(';').filter((query) => query.trim() !== '');
      expect(queries.length).toBeGreaterThan(3);
      const client = new pg.Client(await backend.newDatabase());
      await client.connect();
      try {
        for (const query of queries) await client.query(query);
      } finally {
        await client.end();
      }
    });
  },
  ['postgres'],
);
