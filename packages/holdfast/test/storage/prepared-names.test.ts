import pg from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { event, launch, run, topic, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';

const progress = event<number>('progress');
const letters = topic<string>('letters');
const work = workflow('work', async () => {
  await run('step', () => {});
  await progress.set(1);
  return letters.receive({ timeout: 0 });
});

describeBackends(
  'the name of a prepared statement',
  (backend) => {
    it('stands for one text in all apps, because apps share sessions behind a pooler', async () => {
      const query = vi.spyOn(pg.Client.prototype, 'query');
      onTestFinished(() => query.mockRestore());
      const database = await backend.newDatabase();
      for (const schema of ['one', 'two']) {
        const app = await launch({ name: 'test', database, schema, workflows: [work], logger: silent });
        await work.with({ app })();
        await app.shutdown();
      }
      const texts = new Map<string, Set<string>>();
      for (const [config] of query.mock.calls as unknown as [pg.QueryConfig & { name?: string }][]) {
        if (config?.name) texts.set(config.name, (texts.get(config.name) ?? new Set()).add(config.text));
      }
      expect([...texts.keys()].filter((name) => name.startsWith('steps.')).length).toBeGreaterThan(2);
      expect([...texts.entries()].filter(([, of]) => of.size > 1).map(([name]) => name)).toEqual([]);
      // Postgres truncates longer names.
      expect([...texts.keys()].filter((name) => name.length > 63)).toEqual([]);
    });
  },
  ['postgres'],
);
