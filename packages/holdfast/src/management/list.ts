import { queueNameOf } from '../engine/api/start-options.js';
import { toInfo, type WorkflowInfo } from '../engine/api/workflow-info.js';
import type { Engine } from '../engine/engine.js';
import { checkCount, checkKnownOptions, invalidOption } from '../model/options.js';
import type { Queue } from '../model/queues.js';
import { type WorkflowStatus, workflowStatuses } from '../model/status.js';
import type { WorkflowFilter } from '../storage/contract/storage.js';

/** Filters of `app.workflows.list`. A workflow must match all of the given filters. */
export interface ListOptions {
  readonly ids?: readonly string[];
  /** One status, or several. */
  readonly status?: WorkflowStatus | readonly WorkflowStatus[];
  /** The name of the workflow function. */
  readonly name?: string;
  /** The executor that runs the workflow, or ran it last. */
  readonly executorId?: string;
  readonly version?: string;
  readonly parentWorkflowId?: string;
  /** The queue that the workflow is or was on, by value or name. */
  readonly queue?: Queue | string;
  /** The name of the schedule that started the workflow. */
  readonly schedule?: string;
  /** The ID of the original workflow. Only its forks match. */
  readonly forkedFrom?: string;
  /** `true`: newest first (default: oldest first). */
  readonly newestFirst?: boolean;
  /** The maximum number of workflows to return (default and maximum 1000). */
  readonly limit?: number;
  /** How many matching workflows to skip (default 0). */
  readonly offset?: number;
}

const what = 'list()';
const textFilters = ['name', 'executorId', 'version', 'parentWorkflowId', 'schedule', 'forkedFrom'] as const;
const optionNames = [...textFilters, 'ids', 'status', 'queue', 'newestFirst', 'limit', 'offset'];
const maxPage = 1000;

export async function listWorkflows(engine: Engine, options: ListOptions): Promise<WorkflowInfo[]> {
  checkKnownOptions(what, options, optionNames);
  const records = await engine.storage.workflows.list(filterOf(options));
  return Promise.all(records.map((record) => toInfo(engine.codecs, record)));
}

/** Checks the filters. On SQLite, a filter of the wrong type would match nothing, without an error. */
function filterOf(options: ListOptions): WorkflowFilter {
  const { ids, status, queue, newestFirst = false, limit = maxPage, offset = 0 } = options;
  if (typeof newestFirst !== 'boolean') throw invalidOption(what, 'newestFirst', newestFirst, 'true or false');
  const texts = textFilters.filter((option) => options[option] !== undefined);
  return {
    ...Object.fromEntries(texts.map((option) => [option, checkText(option, options[option])])),
    ...(ids !== undefined && { ids: checkIds(ids) }),
    ...(status !== undefined && { status: checkStatuses(status) }),
    // A name is not checked as a queue name, so that the internal queue and queues of DBOS can be given.
    ...(queue !== undefined && {
      queue: typeof queue === 'string' ? checkText('queue', queue) : queueNameOf(what, queue),
    }),
    newestFirst,
    limit: Math.min(maxPage, checkCount(what, 'limit', limit, 1)),
    offset: checkCount(what, 'offset', offset),
  };
}

/** Accepts more than a name of Holdfast, so that values stored by DBOS can be found too. */
function checkText(option: string, value: unknown): string {
  if (typeof value !== 'string') throw invalidOption(what, option, value, 'a string');
  if (!value.includes('\0') && value.isWellFormed()) return value;
  throw invalidOption(what, option, value, 'valid Unicode without NUL characters, like all stored values');
}

function checkIds(ids: readonly string[]): readonly string[] {
  if (!Array.isArray(ids)) throw invalidOption(what, 'ids', ids, 'a list of IDs');
  return ids.map((id) => checkText('ids', id));
}

function checkStatuses(status: WorkflowStatus | readonly WorkflowStatus[]): readonly WorkflowStatus[] {
  const given: readonly WorkflowStatus[] = Array.isArray(status) ? status : [status];
  for (const each of given) {
    if (workflowStatuses.includes(each)) continue;
    throw invalidOption(what, 'status', each, `one of ${workflowStatuses.join(', ')}, or a list of them`);
  }
  return given;
}
