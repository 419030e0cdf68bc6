/** Reads the database of a system directly, without the system itself, on Postgres or SQLite. */
import pg from 'pg';
import { openSqlite } from '../../test-support/sqlite.mjs';

/**
 * @typedef {object} OpenRows
 * @property {(text: string, value: unknown) => Promise<any[]>} query
 *   queries the tables in the schema `dbos`; `$1` stands for the value
 * @property {string} list a subquery with the elements of the value, which is a JSON list
 * @property {() => Promise<void>} close
 */

/**
 * @param {string} url
 * @returns {Promise<OpenRows>}
 */
export async function openRows(url) {
  return url.startsWith('sqlite') ? openFile(url) : openPostgres(url);
}

/**
 * @param {string} url
 * @returns {OpenRows}
 */
function openFile(url) {
  const database = openSqlite(url, { readonly: true });
  return {
    // A SQLite file has no schemas.
    query: async (text, value) => database.prepare(text.replaceAll('dbos.', '')).all({ 1: value }),
    list: '(select value from json_each($1))',
    close: async () => void database.close(),
  };
}

/**
 * @param {string} url
 * @returns {Promise<OpenRows>}
 */
async function openPostgres(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return {
    query: async (text, value) => (await client.query(text, [value])).rows,
    list: '(select jsonb_array_elements_text($1::jsonb))',
    close: () => client.end(),
  };
}
