/** Counts the waiting workflows. A wait has begun when its deadline is stored. */

const waitingSql = (/** @type {string} */ schema) =>
  `select count(*) as waiting from ${schema}operation_outputs where function_name = 'DBOS.sleep'`;

/**
 * @param {string} url
 * @returns {Promise<{ waiting: () => Promise<number>, close: () => Promise<void> }>}
 */
export async function openCounter(url) {
  if (url.startsWith('sqlite')) {
    const { openSqlite } = await import('../../../test-support/sqlite.mjs');
    const database = openSqlite(url, { readonly: true });
    const statement = database.prepare(waitingSql(''));
    return {
      waiting: async () => /** @type {{ waiting: number }} */ (statement.get()).waiting,
      close: async () => void database.close(),
    };
  }
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return {
    waiting: async () => Number((await client.query(waitingSql('dbos.'))).rows[0].waiting),
    close: () => client.end(),
  };
}
