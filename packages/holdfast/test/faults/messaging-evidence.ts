import { tamper } from '../support/faults.js';
import type { Job } from './crash-sweep.js';

/** What the programs of the crash clock of talking (fixtures/messaging-programs.mjs) must have left behind, whatever was killed. */

/** The lines that each of the two workflows leaves, the end of the closed stream included. */
const written = {
  talk: ['first', 'second', 'spoken one', 'spoken two', '__DBOS_STREAM_CLOSED__'],
  listener: ['got 1,2,3,4,5', 'listened one', 'listened two'],
};

/** What `talk` comes to, in a run without a crash and in every other. */
export const talked = {
  order: 'ID',
  absent: 'WORKFLOW_NOT_FOUND',
  traded: {
    booked: 'book done',
    paid: 'pay done',
    weighed: 'front desk weighed ID as packer',
    refused: 'NOT_AUTHORIZED',
    never: 'undefined',
    packed: 'packed',
  },
  heard: ['welcome', 'got 1,2,3,4,5'],
  got: [1, 2, 3, 4, 5],
  read: ['got 1,2,3,4,5', 'listened one', 'listened two'],
};

/** Each message consumed once and none beside them, streams without gap or double, events as they were last set. */
export async function allSaid({ database, workflowId: id }: Job): Promise<string[]> {
  const about = (column: string): string => `where ${column} in ('${id}', '${id}.l', '${id}.p')`;
  const texts = async (sql: string): Promise<string[]> =>
    (await tamper(database, sql)).map((row) => Object.values(row).map(plain).join(' ').replace(id, 'ID'));
  const messages = `select destination_uuid, topic, message, case when consumed then 'read' else 'unread' end as state`;
  const found = {
    messages: (await texts(`${messages} from notifications ${about('destination_uuid')}`)).sort(),
    lines: await texts(
      `select workflow_uuid, "offset", value from streams ${about('workflow_uuid')} order by workflow_uuid, "offset"`,
    ),
    events: (await texts(`select workflow_uuid, value from workflow_events ${about('workflow_uuid')}`)).sort(),
  };
  const expected = {
    messages: [
      ...[1, 2, 3, 4, 5].map((n) => `ID.l numbers ${n} read`),
      'ID replies got 1,2,3,4,5 read',
      'ID replies welcome read',
    ].sort(),
    lines: [
      ...written.talk.map((line, offset) => `ID ${offset} ${line}`),
      ...written.listener.map((line, offset) => `ID.l ${offset} ${line}`),
    ],
    events: ['ID talked', 'ID.l listened', 'ID.p packed'],
  };
  return differences(found, expected);
}

/** Every transaction took effect once, in its own database. */
export async function countersExact({ database, apart = '', workflowId: id }: Job): Promise<string[]> {
  const table = database.startsWith('sqlite') ? 'counters' : 'public.counters';
  const counters = async (url: string): Promise<string[]> => {
    const rows = await tamper(url, `select id, n from ${table} where id like '${id} %' order by id`);
    return rows.map((row) => `${String(row.id).replace(id, 'ID')}: ${row.n}`);
  };
  return differences(
    { counters: await counters(database), 'counters elsewhere': await counters(apart) },
    { counters: ['ID book: 1', 'ID taken: 1'], 'counters elsewhere': ['ID pay: 1'] },
  );
}

function differences<Kind extends string>(
  found: Record<Kind, readonly string[]>,
  expected: Record<Kind, readonly string[]>,
): string[] {
  const wrong = (Object.keys(expected) as Kind[]).filter(
    (kind) => JSON.stringify(found[kind]) !== JSON.stringify(expected[kind]),
  );
  return wrong.map((kind) => `${kind} are ${JSON.stringify(found[kind])}, not ${JSON.stringify(expected[kind])}`);
}

/** What a stored text says, in whichever of our formats it is. */
function plain(value: unknown): string {
  try {
    const parsed = JSON.parse(String(value));
    return String(parsed?.json ?? parsed);
  } catch {
    return String(value);
  }
}
