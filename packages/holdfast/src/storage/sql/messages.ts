import type { InboxState, MessageRecord, Messages, NewMessage, WaitingMessage } from '../contract/messaging.js';
import type { Columns, Database, Dialect } from '../database.js';

type Inbox = { readonly workflowId: string; readonly topic: string; readonly most: number };

/**
 * The part that notifies the receiver of a committed message: the sending process, or a database trigger if no process
 * of Holdfast learns of the commit.
 */
type Announcer = 'sender' | 'trigger';

/** The table `notifications`: messages to workflows. Received messages stay in the table, marked as consumed. */
export class SqlMessages implements Messages {
  private readonly sql;

  /** For `announcer`, see also the column `announced_by_sender` in docs/reference/schema.md. */
  constructor(
    private readonly database: Database,
    announcer: Announcer = 'sender',
  ) {
    this.sql = messageStatements(database.dialect, announcer);
  }

  async send(rows: readonly NewMessage[]): Promise<Set<string>> {
    const sent = new Set(ids(await this.database.batch(this.sql.send, [], rows)));
    const unconfirmed = rows.filter((row) => !sent.has(row.messageId));
    if (unconfirmed.length === 0) return sent;
    // These messages were stored already, by an earlier attempt or by a message with the same key, or have no
    // recipient.
    return new Set([...sent, ...(await this.stored(unconfirmed.map((row) => row.messageId)))]);
  }

  async sendAll(rows: readonly NewMessage[]): Promise<boolean> {
    const all = JSON.stringify(rows);
    await this.database.query(this.sql.sendAll, [all]);
    // The IDs are read afterwards, so that a repeated call gets the same answer as the first call.
    const known = await this.stored(rows.map((row) => row.messageId));
    return rows.every((row) => known.has(row.messageId));
  }

  async waiting(inboxes: readonly Inbox[]): Promise<WaitingMessage[]> {
    const rows = await this.database.batch(this.sql.waiting, [], inboxes);
    return rows.map((row) => ({
      workflowId: row.workflow_uuid as string,
      topic: row.topic as string,
      messageId: row.message_uuid as string,
      value: row.message as string,
      serialization: row.serialization as string | null,
    }));
  }

  async inboxState({ workflowId, topic }: Pick<Inbox, 'workflowId' | 'topic'>): Promise<InboxState> {
    const [row] = await this.database.query(this.sql.inboxState, [workflowId, topic]);
    return { waiting: Number(row?.waiting ?? 0), bytes: Number(row?.bytes ?? 0) };
  }

  async stored(messageIds: readonly string[]): Promise<Set<string>> {
    const list = this.database.dialect.list(messageIds);
    return new Set(ids(await this.database.query(this.sql.known, [list])));
  }

  async list(workflowId: string): Promise<MessageRecord[]> {
    const rows = await this.database.query(this.sql.list, [workflowId]);
    return rows.map((row) => ({
      topic: row.topic as string | null,
      value: row.message as string,
      serialization: row.serialization as string | null,
      sentAt: Number(row.created_at_epoch_ms),
      consumed: Boolean(row.consumed),
    }));
  }
}

function ids(rows: readonly Record<string, unknown>[]): string[] {
  return rows.map((row) => row.message_uuid as string);
}

const newMessageColumns: Columns<NewMessage> = {
  messageId: 'text',
  destination: 'text',
  topic: 'text',
  value: 'text',
  serialization: 'text',
  sentAt: 'bigint',
};

const inboxColumns: Columns<Inbox> = { workflowId: 'text', topic: 'text', most: 'int' };

function messageStatements(d: Dialect, announcer: Announcer) {
  const messages = d.table('notifications');
  const insert = [
    `insert into ${messages}`,
    '(message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms, announced_by_sender)',
    `select r."messageId", r.destination, r.topic, r.value, r.serialization, r."sentAt", ${announcer === 'sender'}`,
  ].join(' ');
  return {
    send: {
      name: 'messages.send',
      columns: newMessageColumns,
      text: [
        insert,
        `from ${d.rows('r', newMessageColumns, 1)} where exists`,
        `(select 1 from ${d.table('workflow_status')} w where w.workflow_uuid = r.destination)`,
        'on conflict (message_uuid) do nothing returning message_uuid',
      ].join(' '),
    },
    sendAll: {
      name: 'messages.sendAll',
      pinned: true as const,
      text: [
        insert,
        `from ${d.jsonRows('r', newMessageColumns, '$1')} where not exists (select 1 from`,
        `${d.jsonRows('x', { destination: 'text' }, '$1')} where not exists (select 1 from`,
        `${d.table('workflow_status')} w where w.workflow_uuid = x.destination))`,
        'on conflict (message_uuid) do nothing',
      ].join(' '),
    },
    ...readStatements(d),
  };
}

function readStatements(d: Dialect) {
  const messages = d.table('notifications');
  return {
    known: {
      name: 'messages.known',
      pinned: true as const,
      text: `select message_uuid from ${messages} where ${d.anyOf('message_uuid', '$1')}`,
    },
    waiting: {
      name: 'messages.waiting',
      reads: true as const,
      shared: true as const,
      columns: inboxColumns,
      text: [
        'select r."workflowId" as workflow_uuid, r.topic, m.message_uuid, m.message, m.serialization',
        `from ${d.rows('r', inboxColumns, 1)}`,
        d.joined(
          { alias: 'm', columns: inboxColumns, first: 1 },
          (column) =>
            `select message_uuid, message, serialization from ${messages} where destination_uuid = ${column('workflowId')} ` +
            `and topic = ${column('topic')} and consumed = false order by ${d.messageOrder} limit ${column('most')}`,
        ),
      ].join(' '),
    },
    inboxState: {
      name: 'messages.inboxState',
      text: [
        // Postgres stores large values out of line and knows their length without reading them.
        `select count(*) as waiting, coalesce(sum(octet_length(message)), 0) as bytes from ${messages}`,
        'where destination_uuid = $1 and topic = $2 and consumed = false',
      ].join(' '),
    },
    list: {
      name: 'messages.list',
      text: [
        `select topic, message, serialization, created_at_epoch_ms, consumed from ${messages}`,
        `where destination_uuid = $1 order by ${d.messageOrder}`,
      ].join(' '),
    },
  };
}
