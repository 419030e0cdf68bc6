/**
 * The limit on Postgres: hand-written SQL for the rows of a workflow, and nothing else. There is no fence, no conflict
 * check, no reading back, and no promise per workflow. One statement inserts a cohort of workflows, one statement
 * stores each step, and one statement finishes the cohort. Each statement is its own commit. Several cohorts run at the
 * same time, each on its own connection. A step is still durable before the next one begins.
 */
import { rawFleet } from '../fleet/raw.mjs';
import { rawMessages } from '../messages/raw.mjs';
import { createTables } from '../raw/tables.mjs';
import { constants, inputsOf, newIds, outputOf } from '../raw/values.mjs';

const cohorts = 2;

// These statements are planned once, while the tables are empty. The plans must not scan tables that will be large.
const pinPlanner = ['seqscan', 'hashjoin', 'mergejoin', 'bitmapscan']
  .map((what) => `set enable_${what} = off`)
  .join(';');

const start = {
  name: 'start',
  text: `insert into dbos.workflow_status (workflow_uuid, status, name, inputs, serialization, executor_id, owner_xid,
    application_version, application_name, recovery_attempts, created_at, updated_at, started_at_epoch_ms)
    select id, 'PENDING', $3, inputs, $4, $5, $6, $7, $8, 1, $9::bigint, $9::bigint, $9::bigint
    from unnest($1::text[], $2::text[]) as u (id, inputs)`,
};

const step = {
  name: 'step',
  text: `insert into dbos.operation_outputs (workflow_uuid, function_id, function_name, output, serialization,
    started_at_epoch_ms, completed_at_epoch_ms, completion_seq, application_name)
    select id, $3::integer, $4, output, $5, $6::bigint, $6::bigint, $3::integer, $7
    from unnest($1::text[], $2::text[]) as u (id, output)`,
};

const finish = {
  name: 'finish',
  text: `update dbos.workflow_status w set status = 'SUCCESS', output = u.output, completed_at = $3::bigint,
    updated_at = $3::bigint from unnest($1::text[], $2::text[]) as u (id, output) where w.workflow_uuid = u.id`,
};

/** @type {import('../catalogue.mjs').SystemDefinition} */
export default {
  storage: 'postgres',
  limit: 'raw',
  messages: rawMessages,
  fleet: rawFleet,
  async open({ url }) {
    const { default: pg } = await import('pg');
    const clients = Array.from({ length: cohorts }, () => new pg.Client({ connectionString: url }));
    await Promise.all(clients.map((client) => client.connect()));
    await clients[0].query(createTables('postgres'));
    await Promise.all(clients.map((client) => client.query(pinPlanner)));
    const idle = [...clients];

    /** @type {NonNullable<import('../catalogue.mjs').OpenSystem['runCohort']>} */
    const runCohort = async (steps, firstInput, size) => {
      const client = idle.pop();
      if (!client) throw new Error('More cohorts at the same time than connections.');
      const { name, stepName, serialization, executorId, owner, version, appName } = constants;
      const ids = newIds(size);
      const inputs = ids.map((_, index) => inputsOf(firstInput + index));
      const values = [ids, inputs, name, serialization, executorId, owner, version, appName, Date.now()];
      await client.query({ ...start, values });
      const outputs = ids.map((_, index) => outputOf(firstInput + index));
      for (let number = 0; number < steps; number++) {
        await client.query({ ...step, values: [ids, outputs, number, stepName, serialization, Date.now(), appName] });
      }
      await client.query({ ...finish, values: [ids, outputs, Date.now()] });
      idle.push(client);
    };
    return {
      runCohort,
      cohorts,
      async run(steps, input) {
        await runCohort(steps, input, 1);
        return input;
      },
      async close() {
        await Promise.all(clients.map((client) => client.end()));
      },
    };
  },
};
