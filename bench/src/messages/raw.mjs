/**
 * The limit for an exchange of messages: hand-written SQL for the rows of an exchange, and nothing else. Each part is
 * one statement with its own commit: the message with its notification; the receipt with its checkpoint; the event with
 * its history, checkpoint and notification; and one read of the event. No statement checks anything or queries before
 * it takes a message. There is no poll, so a message without a notification is never found.
 */
import { createTables } from '../raw/tables.mjs';
import { constants, outputOf } from '../raw/values.mjs';

const peerId = 'peer';

const talkTables = `
  create table dbos.notifications (message_uuid text primary key, destination_uuid text not null
    references dbos.workflow_status (workflow_uuid), topic text, message text not null, created_at_epoch_ms bigint,
    serialization text, consumed boolean not null default false, send_seq bigserial);
  create index idx_inbox on dbos.notifications (destination_uuid, topic, send_seq) where not consumed;
  create table dbos.workflow_events (workflow_uuid text not null references dbos.workflow_status (workflow_uuid),
    key text not null, value text not null, serialization text, primary key (workflow_uuid, key));
  create table dbos.workflow_events_history (workflow_uuid text not null references dbos.workflow_status (workflow_uuid),
    function_id integer not null, key text not null, value text not null, serialization text,
    primary key (workflow_uuid, function_id, key));
  insert into dbos.workflow_status (workflow_uuid, status, created_at, updated_at) values ('${peerId}', 'PENDING', 0, 0);`;

const send = {
  name: 'send',
  text: `with sent as (insert into dbos.notifications (message_uuid, destination_uuid, topic, message, serialization,
    created_at_epoch_ms) values ($1, $2, 'questions', $3, $4, $5)) select pg_notify('raw_messages', '')`,
};

const receive = {
  name: 'receive',
  text: `with taken as (update dbos.notifications set consumed = true where message_uuid = (select message_uuid
    from dbos.notifications where destination_uuid = $1 and topic = 'questions' and not consumed
    order by send_seq limit 1) returning message) insert into dbos.operation_outputs (workflow_uuid, function_id,
    function_name, output, serialization, started_at_epoch_ms, completed_at_epoch_ms, completion_seq, application_name)
    select $1, $2, 'DBOS.recv', message, $3, $4, $4, $2, $5 from taken returning output`,
};

const setEvent = {
  name: 'setEvent',
  text: `with event as (insert into dbos.workflow_events values ($1, $2, $3, $4)),
    history as (insert into dbos.workflow_events_history values ($1, $5, $2, $3, $4)),
    record as (insert into dbos.operation_outputs (workflow_uuid, function_id, function_name, serialization,
      started_at_epoch_ms, completed_at_epoch_ms, completion_seq, application_name)
      values ($1, $5, 'DBOS.setEvent', $4, $6, $6, $5, $7))
    select pg_notify('raw_events', $2)`,
};

const getEvent = {
  name: 'getEvent',
  text: 'select value from dbos.workflow_events where workflow_uuid = $1 and key = $2',
};

/** @type {import('./exchange.mjs').MessagesAdapter} */
export const rawMessages = {
  settings: 'SQL by hand, one statement for each part',

  async openCaller({ url }) {
    const { statements, ears, close } = await connect(url);
    await statements.query(createTables('postgres'));
    await statements.query(talkTables);
    await ears.query('listen raw_events');
    const next = nextNews(ears);
    return {
      async send(exchange) {
        const values = [`message ${exchange}`, peerId, outputOf(exchange), constants.serialization, Date.now()];
        await statements.query({ ...send, values });
      },
      async answer(exchange) {
        await next();
        const { rows } = await statements.query({ ...getEvent, values: [peerId, `answer ${exchange}`] });
        return JSON.parse(rows[0].value).json;
      },
      close,
    };
  },

  async openPeer({ url, exchanges, received, answering }) {
    const { statements, ears, close } = await connect(url);
    await ears.query('listen raw_messages');
    const next = nextNews(ears);
    const { serialization, appName } = constants;
    const answerAll = async () => {
      for (let exchange = 0; exchange < exchanges; exchange++) {
        await next();
        const values = [peerId, 2 * exchange, serialization, Date.now(), appName];
        const { rows } = await statements.query({ ...receive, values });
        const question = JSON.parse(rows[0].output).json;
        received(exchange);
        answering(exchange);
        const key = `answer ${exchange}`;
        const answer = [peerId, key, outputOf(question), serialization, 2 * exchange + 1, Date.now(), appName];
        await statements.query({ ...setEvent, values: answer });
      }
    };
    const answered = answerAll();
    return {
      async close() {
        await answered;
        await close();
      },
    };
  },
};

/** @param {string} url */
async function connect(url) {
  const { default: pg } = await import('pg');
  const [statements, ears] = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })];
  await Promise.all([statements.connect(), ears.connect()]);
  return { statements, ears, close: () => Promise.all([statements.end(), ears.end()]) };
}

/**
 * Resolves with the notifications one by one, in order.
 *
 * @param {import('pg').Client} ears
 */
function nextNews(ears) {
  let unread = 0;
  let wake = () => {};
  ears.on('notification', () => {
    unread++;
    wake();
  });
  return async () => {
    while (unread === 0) {
      await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
        wake = resolve;
      });
    }
    unread--;
  };
}
