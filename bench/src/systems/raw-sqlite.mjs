/**
 * The limit on SQLite (write-ahead log, synchronous=FULL). It works like `raw`, but inserts a cohort's rows of one
 * phase one by one inside one transaction, because SQLite is fastest this way.
 */
import { createTables } from '../raw/tables.mjs';
import { constants, inputsOf, newIds, outputOf } from '../raw/values.mjs';

const startSql = `insert into workflow_status (workflow_uuid, status, name, inputs, serialization, executor_id,
  owner_xid, application_version, application_name, recovery_attempts, created_at, updated_at, started_at_epoch_ms)
  values (?, 'PENDING', ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)`;

const stepSql = `insert into operation_outputs (workflow_uuid, function_id, function_name, output, serialization,
  started_at_epoch_ms, completed_at_epoch_ms, completion_seq, application_name) values (?, ?, ?, ?, ?, ?, ?, ?, ?)`;

const finishSql = `update workflow_status set status = 'SUCCESS', output = ?, completed_at = ?, updated_at = ?
  where workflow_uuid = ?`;

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'sqlite',
  limit: 'raw-sqlite',
  async open({ url }) {
    const { openSqlite } = await import('../../../test-support/sqlite.mjs');
    const database = openSqlite(url);
    for (const setting of ['journal_mode = WAL', 'synchronous = FULL', 'foreign_keys = ON']) database.pragma(setting);
    database.exec(createTables('sqlite'));
    const [start, step, finish] = [startSql, stepSql, finishSql].map((sql) => database.prepare(sql));
    const { name, stepName, serialization, executorId, owner, version, appName } = constants;

    /** @param {(...args: any[]) => void} work */
    const inTransaction =
      (work) =>
      (/** @type {any[]} */ ...args) => {
        database.exec('begin immediate');
        work(...args);
        database.exec('commit');
      };
    const startAll = inTransaction((ids, firstInput, now) => {
      for (const [index, id] of ids.entries()) {
        const inputs = inputsOf(firstInput + index);
        start.run(id, name, inputs, serialization, executorId, owner, version, appName, now, now, now);
      }
    });
    const stepAll = inTransaction((ids, firstInput, number, now) => {
      for (const [index, id] of ids.entries()) {
        step.run(id, number, stepName, outputOf(firstInput + index), serialization, now, now, number, appName);
      }
    });
    const finishAll = inTransaction((ids, firstInput, now) => {
      for (const [index, id] of ids.entries()) finish.run(outputOf(firstInput + index), now, now, id);
    });

    /** @type {NonNullable<import('../catalogue.mjs').OpenSystem['runCohort']>} */
    const runCohort = async (steps, firstInput, size) => {
      const ids = newIds(size);
      startAll(ids, firstInput, Date.now());
      for (let number = 0; number < steps; number++) stepAll(ids, firstInput, number, Date.now());
      finishAll(ids, firstInput, Date.now());
    };
    return {
      runCohort,
      cohorts: 1,
      async run(steps, input) {
        await runCohort(steps, input, 1);
        return input;
      },
      async close() {
        database.close();
      },
    };
  },
};
