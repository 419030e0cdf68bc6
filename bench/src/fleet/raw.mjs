/**
 * The limit for the messages of a fleet: one hand-written insert for each message, into the same table without a
 * trigger. The table is Holdfast's own, so each row enters the same indexes.
 */
import { randomUUID } from 'node:crypto';
import { constants, outputOf } from '../raw/values.mjs';
import { holdfastFleet } from './holdfast.mjs';

const send = {
  name: 'send',
  text: `insert into dbos.notifications (message_uuid, destination_uuid, topic, message, serialization,
    created_at_epoch_ms) values ($1, $2, 'mail', $3, $4, $5)`,
};

/** @type {import('./trial.mjs').FleetAdapter} */
export const rawFleet = {
  onlySends: true,
  async open(post) {
    const { default: pg } = await import('pg');
    const client = new pg.Client({ connectionString: post.url });
    await client.connect();
    if (post.role === 'starter') await makeTables(client, post);
    return {
      openMailbox: (id) =>
        client.query(`insert into dbos.workflow_status (workflow_uuid, status) values ($1, 'x')`, [id]),
      send: (id, number) =>
        client.query({ ...send, values: [randomUUID(), id, outputOf(number), constants.serialization, Date.now()] }),
      async readMailbox(id) {
        const text = 'select count(distinct message)::int as n from dbos.notifications where destination_uuid = $1';
        return (await client.query(text, [id])).rows[0].n;
      },
      close: () => client.end(),
    };
  },
};

/** @param {import('pg').Client} client @param {import('./trial.mjs').Post} post */
async function makeTables(client, post) {
  await (await holdfastFleet.open(post)).close();
  await client.query('alter table dbos.notifications disable trigger user');
}
