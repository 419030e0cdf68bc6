import { expect, it } from 'vitest';
import { launch, migrate, run, workflow } from '../../src/index.js';
import { indexesOfOthers } from '../../src/storage/migrations/compat.js';
import { command } from '../cli/command.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';
import { restrictedRole } from '../support/roles.js';
import { connectTo, layout, migrateWithDbos, minus } from './migrations-support.js';

const greet = workflow('greet', () => run('compose', () => 'hello'));
const dropped = indexesOfOthers.map(({ name }) => name).sort();
const open = (database: string, options: object = {}) =>
  launch({ name: 'test', database, workflows: [greet], logger: silent, ...options });
const layoutOf = async (database: string) => layout(await connectTo(database));
const recorded = async (database: string) =>
  (await tamper(database, 'select compat from holdfast_migrations'))[0]?.compat;

/** Storage settings of the tables, for example the fillfactor. */
const storage =
  'select relname as name, reloptions as options from pg_class ' +
  "where relnamespace = 'dbos'::regnamespace and reloptions is not null order by 1";

describeBackends(
  'compat',
  (backend) => {
    /** The names of the indexes that are missing, compared with a database without a recorded choice. */
    const missing = async (database: string) => {
      const lines = minus(await layoutOf(await backend.newDatabase()), await layoutOf(database));
      return lines.map((line) => /^index CREATE INDEX (\w+)/.exec(line)?.[1] ?? line).sort();
    };

    it("'none' leaves out what only DBOS applications need, also for processes without the option", async () => {
      const database = await backend.emptyDatabase();
      for (const options of [{ compat: 'none' }, {}, { migrate: false }, { compat: 'none', migrate: false }]) {
        const app = await open(database, options);
        expect(await greet()).toBe('hello');
        await app.shutdown();
        expect(await missing(database)).toEqual(dropped);
      }
      await migrate({ database, logger: silent });
      expect([await missing(database), await recorded(database)]).toEqual([dropped, 'none']);
    });

    it('fails at launch if another layout was chosen, and the error says how to change the layout', async () => {
      const database = await backend.newDatabase();
      await migrate({ database, compat: 'none', logger: silent });
      const error = await failure(open(database, { compat: 'shared' }));
      expect(error).toMatchObject({ code: 'COMPAT_CONFLICT', details: { asked: 'shared', recorded: 'none' } });
      expect(error.message).toMatch(/migrate\(\{ compat: 'shared' \}\).*leave out the option/);
      expect(await missing(database)).toEqual(dropped);
      await migrate({ database, compat: 'shared', logger: silent });
      expect([await missing(database), await recorded(database)]).toEqual([[], 'shared']);
      const fresh = await backend.newDatabase();
      expect(await tamper(database, storage)).toEqual(await tamper(fresh, storage));
      expect(await failure(open(database, { compat: 'none' }))).toMatchObject({ code: 'COMPAT_CONFLICT' });
      await (await open(database, { compat: 'shared' })).shutdown();
    });

    it('is not recorded by a launch with `migrate: false`', async () => {
      const database = await backend.newDatabase();
      const options = { compat: 'none', migrate: false };
      const details = { asked: 'none', recorded: null };
      expect(await failure(open(database, options))).toMatchObject({ code: 'COMPAT_CONFLICT', details });
      expect([await missing(database), await recorded(database)]).toEqual([[], null]);
    });

    it.each(['none', 'shared'] as const)(
      '%j is not recorded by a role that does not own the tables',
      async (compat) => {
        const { database, url, role } = await restrictedRole(await backend.newDatabase());
        const before = compat === 'none' ? null : 'none';
        if (before) await migrate({ database, compat: before, logger: silent });
        await tamper(database, `grant usage on schema dbos to ${role}`);
        await tamper(database, `grant all on all tables in schema dbos to ${role}`);
        const missed = await missing(database);
        const error = await failure(migrate({ database: url, compat, logger: silent }));
        expect(error).toMatchObject({ code: 'COMPAT_CONFLICT', details: { asked: compat, recorded: before } });
        expect(error.message).toContain('with a role that owns the tables');
        expect([await missing(database), await recorded(database)]).toEqual([missed, before]);
      },
    );

    it('continues a change of layout that was killed, in both directions', async () => {
      const database = await backend.newDatabase();
      await tamper(database, "update holdfast_migrations set compat = 'none'");
      await migrate({ database, compat: 'none', logger: silent });
      expect(await missing(database)).toEqual(dropped);
      const [index] = dropped;
      await tamper(database, `create index ${index} on workflow_status (created_at)`);
      await tamper(database, `update pg_index set indisvalid = false where indexrelid = '${index}'::regclass`);
      await migrate({ database, compat: 'shared', logger: silent });
      expect(await missing(database)).toEqual([]);
    });

    it('gives an empty database the schema that `holdfast schema --compat none` prints', async () => {
      const [printed, migrated] = [await backend.emptyDatabase(), await backend.emptyDatabase()];
      await (await connectTo(printed)).query((await command('schema', '--compat', 'none')).out);
      await command('migrate', '--database', migrated, '--compat', 'none');
      expect(await layoutOf(printed)).toEqual(await layoutOf(migrated));
      expect(await tamper(printed, storage)).toEqual(await tamper(migrated, storage));
      expect(await tamper(printed, storage)).toContainEqual({
        name: 'operation_outputs',
        options: expect.arrayContaining(['fillfactor=80']),
      });
      expect([await recorded(printed), await recorded(migrated)]).toEqual(['none', 'none']);
    });

    it('lets DBOS use the database later', async () => {
      const database = await backend.newDatabase();
      await migrate({ database, compat: 'none', logger: silent });
      migrateWithDbos(database);
      await migrate({ database, compat: 'shared', logger: silent });
      await (await open(database)).shutdown();
    });

    it('does not change the fillfactor and autovacuum settings, which migrations set', async () => {
      const database = await backend.newDatabase();
      const rows = await tamper(database, storage);
      expect(rows).toContainEqual({ name: 'executors', options: ['fillfactor=50'] });
      expect(rows.map(({ name }) => name)).toContain('workflow_status');
    });

    it('keeps the settings of an operator, and so do migrations', async () => {
      const database = await backend.newDatabase();
      for (const { name, options: set } of await tamper(database, storage)) {
        const names = (set as string[]).map((each) => each.split('=')[0]).join(', ');
        await tamper(database, `alter table ${name} reset (${names})`);
      }
      await tamper(database, 'alter table streams set (fillfactor = 77)');
      await tamper(database, 'update holdfast_migrations set version = 26');
      await migrate({ database, logger: silent });
      expect(await tamper(database, storage)).toEqual([{ name: 'streams', options: ['fillfactor=77'] }]);
    });
  },
  ['postgres'],
);

describeBackends(
  'compat',
  (backend) => {
    it('is supported only for Postgres', async () => {
      const database = await backend.newDatabase();
      expect(await failure(open(database, { compat: 'none' }))).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/"compat" is for Postgres/),
      });
    });

    it('accepts only two values', async () => {
      const database = await backend.newDatabase();
      expect(await failure(open(database, { compat: 'dbos' }))).toMatchObject({ code: 'INVALID_OPTION' });
    });
  },
  ['sqlite'],
);
