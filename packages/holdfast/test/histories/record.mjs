// Records the histories of a release: `node record.mjs <release> <folder of its built package>`. For each program it
// records a run that was cut off half-way and a finished run, on SQLite: the tables as that release created them, and
// their rows.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { historicPrograms, messages, recorded } from './programs.mjs';

const [release, folder] = process.argv.slice(2);
const library = await import(pathToFileURL(join(folder, 'dist', 'index.js')).href);
const { testApp } = await import(pathToFileURL(join(folder, 'dist', 'testing', 'index.js')).href);
const scratch = mkdtempSync(join(tmpdir(), 'holdfast-record-'));

/** Both runs use the same IDs, because random choices depend on the IDs. */
async function record(name, toTheEnd) {
  const path = join(mkdtempSync(join(scratch, 'run-')), 'history.sqlite');
  const ran = [];
  let reached;
  const halfWay = new Promise((resolve) => {
    reached = resolve;
  });
  const half = () => {
    reached();
    return toTheEnd ? undefined : new Promise(() => {});
  };
  const programs = historicPrograms(library, { ran: (step) => ran.push(step), half });
  const t = await testApp({ database: `sqlite:${path}`, version: 'history', workflows: Object.values(programs) });
  const handle = await programs[name].with({ id: name }).start('input');
  const { topic, value } = messages[name] ?? {};
  if (topic) await library.topic(topic).send(name, value);
  const end = handle.result();
  end.catch(() => {});
  const over = toTheEnd ? end : halfWay;
  let pending = true;
  over.then(() => {
    pending = false;
  });
  while (pending) await t.clock.advance('1m');
  // Meanwhile the other operations in progress have written their records.
  await t.clock.advance(0);
  await new Promise((resolve) => setTimeout(resolve, 200));
  const at = t.clock.now();
  await t.crash();
  const tables = dump(path);
  return {
    at,
    ran,
    ...tables,
    ...(toTheEnd && { output: tables.rows.workflow_status.find((row) => row.workflow_uuid === name).output }),
  };
}

/** Removes stack traces, because they contain paths of the recording machine. */
function withoutTraces(row) {
  const strip = (value) => (typeof value === 'string' ? value.replaceAll(/(\\n +at [^"\\]*)+/g, '') : value);
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [column, strip(value)]));
}

function dump(path) {
  const db = openSqlite(path, { readonly: true });
  const objects = db
    .prepare("select type, name, sql from sqlite_master where sql is not null and name not like 'sqlite_%'")
    .all();
  const tables = objects.filter(({ type }) => type === 'table').map(({ name }) => name);
  const rows = Object.fromEntries(
    tables
      .map((name) => [name, db.prepare(`select * from "${name}"`).all().map(withoutTraces)])
      .filter(([, found]) => found.length > 0),
  );
  db.close();
  return { schema: objects.map(({ sql }) => sql), rows };
}

/** The order in which concurrent steps finish. It varies between runs, and the outcome of a run depends on it. */
function inOrder({ rows: { operation_outputs: steps } }) {
  const done = steps.toSorted((a, b) => a.completion_seq - b.completion_seq).map((step) => step.function_name);
  return done.includes('lost') ? done.slice(0, done.indexOf('lost')).join() : '';
}

const histories = {};
let schema;
for (const name of recorded) {
  let pair;
  do pair = { half: await record(name, false), whole: await record(name, true) };
  while (inOrder(pair.half) !== inOrder(pair.whole));
  const { half, whole } = pair;
  schema = half.schema;
  histories[name] = { half: { ...half, schema: undefined }, whole: { ...whole, schema: undefined } };
}
writeFileSync(
  new URL(`./${release}.json`, import.meta.url),
  `${JSON.stringify({ release, schema, histories }, null, 1)}\n`,
);
rmSync(scratch, { recursive: true });
process.exit();
