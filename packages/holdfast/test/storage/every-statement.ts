import type { BatchStatement, Database, Dialect, Statement } from '../../src/storage/database.js';
import { SqlDeletions } from '../../src/storage/sql/deletions.js';
import { SqlEvents } from '../../src/storage/sql/events.js';
import { SqlExecutors } from '../../src/storage/sql/executors.js';
import { SqlForks } from '../../src/storage/sql/forks.js';
import { SqlMessages } from '../../src/storage/sql/messages.js';
import { SqlQueues } from '../../src/storage/sql/queues.js';
import { SqlRetries } from '../../src/storage/sql/retries.js';
import { SqlSchedules } from '../../src/storage/sql/schedules.js';
import { SqlSteps } from '../../src/storage/sql/steps.js';
import { SqlStreams } from '../../src/storage/sql/streams.js';
import { SqlTakeovers } from '../../src/storage/sql/takeovers.js';
import { SqlVersions } from '../../src/storage/sql/versions.js';
import { SqlWorkflows } from '../../src/storage/sql/workflows.js';
import { effectful, sent, set, written } from './messaging-support.js';

/** Every statement of `storage/sql` in this dialect: those that its classes hold, and those built by calls. */
export async function everyStatement(dialect: Dialect): Promise<(Statement | BatchStatement<object>)[]> {
  const found: Statement[] = [];
  const on = recorder(dialect, found);
  const parts = [
    ...[SqlDeletions, SqlEvents, SqlExecutors, SqlForks, SqlMessages, SqlQueues, SqlSchedules, SqlSteps, SqlStreams],
    ...[SqlRetries, SqlTakeovers, SqlVersions, SqlWorkflows],
  ].map((Part) => new Part(on as never));
  await putTogether(on);
  const held = parts.flatMap((part) => statementsIn(part, new Set<unknown>([on])));
  // Several classes may hold the same statement.
  return [...new Map([...held, ...found].map((statement) => [statement.text, statement])).values()];
}

/** Builds each statement whose text depends on the parameters, with all of its parts. */
async function putTogether(on: Database): Promise<void> {
  const steps = new SqlSteps(on);
  const effects = [sent('m', 'b'), { kind: 'consume', messageId: 'u' } as const, set('k', 'v'), written('k', 'v')];
  await steps.recordEffects('app', [effectful('a', 1, effects)]);
  for (const effect of effects) await steps.recordEffects('app', [effectful('a', 1, [effect])]);
  const many = Array.from({ length: 10_001 }, () => written('k', 'v'));
  await steps.recordEffects('app', [effectful('a', 1, [...effects, ...many])]);
  const workflows = new SqlWorkflows(on);
  await workflows.list({});
  const place = { executorId: 'e', version: 'v', parentWorkflowId: 'p', queue: 'q', schedule: 's', forkedFrom: 'f' };
  await workflows.list({ ids: ['a'], status: ['PENDING'], name: 'n', ...place, newestFirst: true });
  const takeovers = new SqlTakeovers(on);
  await takeovers.incomplete({ appName: 'app', limit: 10 });
  await takeovers.incomplete({
    ...{ appName: 'app', limit: 10, workflowIds: ['a'], executorIds: ['e'], name: 'n' },
    ...{ after: { createdAt: 1, workflowId: 'a' }, handedOver: { butFor: ['v'] } },
  });
  const schedules = new SqlSchedules(on);
  const changes = { cron: '* * * * *', timezone: 'UTC', catchUpLimit: 1, catchUp: 'all' as const };
  await schedules.change({ name: 's', appName: 'app', changes, now: 1 });
}

function recorder(dialect: Dialect, found: Statement[]): Database {
  const record = async (statement: Statement & { readonly portions?: { readonly text: string } }): Promise<[]> => {
    found.push(statement);
    if (statement.portions) found.push({ name: `${statement.name} (portions)`, text: statement.portions.text });
    return [];
  };
  return { dialect, query: record, batch: record, write: record } as unknown as Database;
}

function statementsIn(value: unknown, seen: Set<unknown>): Statement[] {
  if (typeof value !== 'object' || value === null || seen.has(value)) return [];
  seen.add(value);
  const { name, text } = value as Partial<Statement>;
  if (typeof name === 'string' && typeof text === 'string') return [value as Statement];
  return Object.values(value).flatMap((each) => statementsIn(each, seen));
}
