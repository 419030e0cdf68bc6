import type { Engine } from '../engine/engine.js';
import { isResumable } from '../model/status.js';
import { didYouMean } from '../model/suggest.js';
import type { WorkflowRecord } from '../storage/contract/storage.js';
import type { Knowledge } from './incomplete.js';

/** Why `recover()` has put back nothing of what it was given. An empty list alone would pass for "all is well". */

/** How many IDs are told of, one by one. */
const maxLines = 20;

/** Says of which of these executors nothing is known at all. `known`: those in the table, and those with work to recover. */
export async function warnOfUnknownExecutors(
  engine: Engine,
  executorIds: readonly string[],
  known: ReadonlySet<string>,
): Promise<void> {
  const doubtful = [...new Set(executorIds)].filter((id) => !known.has(id)).slice(0, maxLines);
  if (doubtful.length === 0) return;
  const { storage, writer, version, logger } = engine;
  const elsewhere = await storage.takeovers.incomplete({
    appName: writer.appName,
    executorIds: doubtful,
    limit: 1000,
  });
  const workflows = new Set((await storage.workflows.get(doubtful)).map(({ workflowId }) => workflowId));
  for (const id of doubtful) {
    const other = elsewhere.find((each) => each.executorId === id);
    const hint = workflows.has(id)
      ? ` A workflow has this ID: app.recovery.recover({ workflowIds: ['${id}'] }) puts back single workflows.`
      : didYouMean(id, [...known]);
    logger.warn(
      other
        ? `recover(): the work of executor "${id}" is of version "${other.version ?? ''}", and this process of version ` +
            `"${version}". Call it in a process of that version.`
        : `recover(): nothing is known of executor "${id}": it has no unfinished work, and is not among the executors.${hint}`,
    );
  }
}

/** Says why these workflows were not put back. */
export async function warnOfUnrecovered(
  engine: Engine,
  knowledge: Knowledge,
  workflowIds: readonly string[],
): Promise<void> {
  const ids = [...new Set(workflowIds)].slice(0, maxLines);
  if (ids.length === 0) return;
  const { storage, logger } = engine;
  const found = new Map((await storage.workflows.get(ids)).map((record) => [record.workflowId, record]));
  const pending = await storage.takeovers.incomplete({ appName: '', workflowIds: ids, limit: ids.length });
  const plans = new Map(
    pending.map((record) => [record.workflowId, knowledge.plan(record, knowledge.ownerOf(record)).because]),
  );
  for (const id of ids) {
    logger.warn(`recover() leaves workflow "${id}" alone: ${whyNot(engine, found.get(id), plans.get(id))}.`);
  }
}

function whyNot(
  { writer }: Engine,
  record: Pick<WorkflowRecord, 'status' | 'appName'> | undefined,
  plan: string | undefined,
): string {
  if (!record) return 'there is none with this ID';
  const { status, appName } = record;
  if (appName !== null && appName !== writer.appName) return `it is of the app "${appName}"`;
  if (status === 'PENDING') return plan ?? 'someone has taken it up meanwhile';
  return `it is ${status}${isResumable(status) ? ', and app.workflows.resume() starts it again' : ''}`;
}
