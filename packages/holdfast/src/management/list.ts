import { queueNameOf } from '../engine/api/start-options.js';
import { toInfo, type WorkflowInfo } from '../engine/api/workflow-info.js';
import type { Engine } from '../engine/engine.js';
import { checkCount, checkKnownOptions, invalidOption } from '../model/options.js';
import type { Queue } from '../model/queues.js';
import { type WorkflowStatus, workflowStatuses } from '../model/status.js';
import type { WorkflowFilter } from '../storage/contract/storage.js';

/** Which workflows `list` returns: those that match everything given. */
export interface ListOptions {
  readonly ids?: readonly string[];
  readonly status?: WorkflowStatus | readonly WorkflowStatus[];
  readonly name?: string;
  readonly executorId?: string;
  readonly version?: string;
  readonly parentWorkflowId?: string;
  /** The queue that they are, or were, on, by value or name. */
  readonly queue?: Queue | string;
  /** Name of the schedule that started them. */
  readonly schedule?: string;
  /** ID of the workflow that they are forks of. */
  readonly forkedFrom?: string;
  readonly newestFirst?: boolean;
  /** At most this many (default and maximum 1000). */
  readonly limit?: number;
  readonly offset?: number;
}

const what = 'list()';
const textFilters = ['name', 'executorId', 'version', 'parentWorkflowId', 'schedule', 'forkedFrom'] as const;
const optionNames = [...textFilters, 'ids', 'status', 'queue', 'newestFirst', 'limit', 'offset'];
const longestPage = 1000;

export async function listWorkflows(engine: Engine, options: ListOptions): Promise<WorkflowInfo[]> {
  checkKnownOptions(what, options, optionNames);
  const records = await engine.storage.workflows.list(filterOf(options));
  return Promise.all(records.map((record) => toInfo(engine.codecs, record)));
}

/** What is looked for, checked: on SQLite a filter of the wrong kind would match nothing, without a word. */
function filterOf(options: ListOptions): WorkflowFilter {
  const { ids, status, queue, newestFirst = false, limit = longestPage, offset = 0 } = options;
  if (typeof newestFirst !== 'boolean') throw invalidOption(what, 'newestFirst', newestFirst, 'true or false');
  const texts = textFilters.filter((option) => options[option] !== undefined);
  return {
    ...Object.fromEntries(texts.map((option) => [option, checkText(option, options[option])])),
    ...(ids !== undefined && { ids: checkIds(ids) }),
    ...(status !== undefined && { status: checkStatuses(status) }),
    // By name also one that is not the user's own: the internal one, or one of DBOS.
    ...(queue !== undefined && {
      queue: typeof queue === 'string' ? checkText('queue', queue) : queueNameOf(what, queue),
    }),
    newestFirst,
    limit: Math.min(longestPage, checkCount(what, 'limit', limit, 1)),
    offset: checkCount(what, 'offset', offset),
  };
}

/** Wider than a name: what DBOS has stored can be looked for too. */
function checkText(option: string, value: unknown): string {
  if (typeof value !== 'string') throw invalidOption(what, option, value, 'a text');
  if (!value.includes('\0') && value.isWellFormed()) return value;
  throw invalidOption(what, option, value, 'valid Unicode without NUL characters, as all that is stored is');
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
