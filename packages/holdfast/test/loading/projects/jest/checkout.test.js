const { readFile } = require('node:fs/promises');
const { isHoldfastError, launch, run, workflow } = require('holdfast');
const { testApp } = require('holdfast/testing');

test('runs a workflow', async () => {
  const missing = () => run('read', () => readFile('/no/such/file')).catch((error) => error.code);
  const wf = workflow('wf', async (n) => [n, await missing()]);
  const t = await testApp({ workflows: [wf] });
  expect(await wf(1)).toEqual([1, 'ENOENT']);
  await t.stop();
});

test.each(['classes', 'pg', 'sqlite', 'better-sqlite3', 'knex'])('loads holdfast/%s', (part) => {
  expect(Object.keys(require(`holdfast/${part}`))).not.toEqual([]);
});

test('tells a server that is not there', async () => {
  const error = await launch({ name: 'x', database: 'postgres://127.0.0.1:1/none' }).catch((each) => each);
  expect(isHoldfastError(error, 'DATABASE_UNREACHABLE')).toBe(true);
});
