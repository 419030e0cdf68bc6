import { expect, it } from 'vitest';
import { transaction, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { libraries } from '../support/datasources.js';
import { failure } from '../support/faults.js';
import { counter, openUserDataIn } from '../support/user-data.js';

/** The statements that the function sends, and the counter afterwards: 1 if its earlier write was committed. */
const endings = [
  { statements: ['commit'], left: 1 },
  { statements: ['rollback'], left: 0 },
  { statements: ['commit', 'begin'], left: 1 },
];

describeBackends('a transaction that its own function commits or rolls back', suite);

function suite(backend: Backend): void {
  const own = libraries.filter(({ dialect }) => dialect === backend.name);
  const places = backend.name === 'sqlite' ? ['another'] : ['another', 'the same'];
  // On Postgres the second transaction cannot be distinguished from the first.
  const noticed = endings.filter(({ statements }) => backend.name === 'sqlite' || statements.length === 1);
  const cases = own.flatMap((library) =>
    places.flatMap((place) => noticed.map((ending) => ({ ...ending, by: library.name, library, place }))),
  );
  it.each(cases)(
    'fails after $statements through $by, in $place database',
    async ({ library, place, statements, left }) => {
      const database = await backend.newDatabase();
      const url = place === 'the same' ? database : await backend.emptyDatabase();
      const data = await openUserDataIn(url, library);
      let calls = 0;
      const pay = transaction(data.datasource, 'pay', async (tx) => {
        calls++;
        await data.add(tx, 'ada', 1);
        for (const statement of statements) await data.datasource.query(tx, statement, []);
        return 'paid';
      });
      const wf = workflow('wf', async () => pay());
      await backend.testApp({ workflows: [wf], database });
      expect(await failure(wf.with({ id: 'x' })())).toMatchObject({
        code: 'UNSUPPORTED_CALL',
        message: /"pay" was committed or rolled back by its own function/,
      });
      expect(calls).toBe(1);
      expect(await counter(data.url, 'ada')).toBe(left);
      // The state that the transaction leaves behind does not harm the next transaction.
      const after = transaction(data.datasource, 'after', async (tx) => void (await data.add(tx, 'bob', 1)));
      const next = workflow('next', async () => after());
      await backend.testApp({ workflows: [next], database });
      await next();
      expect(await counter(data.url, 'bob')).toBe(1);
    },
  );
}
