import type { Engine } from '../engine/engine.js';
import { isResumable } from '../model/status.js';
import { didYouMean } from '../model/suggest.js';
import type { WorkflowRecord } from '../storage/contract/storage.js';
import type { Knowledge } from './incomplete.js';

/**
 * Warnings about targets of `recover()` that were not recovered. Without them, an empty result would look like
 * success.
 */

/** Maximum number of IDs with a warning of their own. */
const maxLines = 20;

/** Warns about executor IDs that are not in `known`: the executors in the table, and those with work to recover. */
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
      ? ` A workflow has this ID: app.recovery.recover({ workflowIds: ['${id}'] }) recovers single workflows.`
      : didYouMean(id, [...known]);
    logger.warn(
      other
        ? `recover(): the work of executor "${id}" has version "${other.version ?? ''}", but this process runs ` +
            `version "${version}". Call recover() in a process of version "${other.version ?? ''}".`
        : `recover(): executor "${id}" is unknown: it has no unfinished work, and no row in the table of ` +
            `executors.${hint}`,
    );
  }
}

/** Warns about each of these workflows, and says why it was not recovered. */
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
    logger.warn(`recover() did not recover workflow "${id}": ${whyNot(engine, found.get(id), plans.get(id))}.`);
  }
}

function whyNot(
  { writer }: Engine,
  record: Pick<WorkflowRecord, 'status' | 'appName'> | undefined,
  plan: string | undefined,
): string {
  if (!record) return 'there is no workflow with this ID';
  const { status, appName } = record;
  if (appName !== null && appName !== writer.appName) return `it belongs to app "${appName}"`;
  if (status === 'PENDING') return plan ?? 'another process has taken it over in the meantime';
  return `it is ${status}${isResumable(status) ? '; app.workflows.resume() starts it again' : ''}`;
}
