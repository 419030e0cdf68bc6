import type { Codecs } from '../../codec/codecs.js';
import { parseRetries, type RetryMark } from '../../model/retries.js';
import type { WorkflowStatus } from '../../model/status.js';
import type { WorkflowRecord } from '../../storage/contract/storage.js';
import { parseRoles } from '../start/authorization.js';

/** A workflow as `status()`, `get` and `list` return it. Instants (`...At`) are epoch milliseconds. */
export interface WorkflowInfo {
  readonly workflowId: string;
  /** Name of the workflow, as given to `workflow()`. */
  readonly name: string;
  /** Class of a workflow that is a method. Undefined for a plain function. */
  readonly className: string | undefined;
  /**
   * Name of the instance that the workflow method belongs to. Undefined for a plain function and for a static method.
   */
  readonly configName: string | undefined;
  readonly status: WorkflowStatus;
  /** Reason for the status CANCELLED or STALLED, if a reason is stored. */
  readonly reason: string | undefined;
  /** Arguments of the workflow. Undefined if this process cannot read them. */
  readonly input: readonly unknown[] | undefined;
  /** Returned value. Undefined before the end, and if this process cannot read the value. */
  readonly output: unknown;
  /** Error of a failed or stalled workflow. Undefined if this process cannot read the error. */
  readonly error: unknown;
  /** Retries of this failed workflow with the failure before each of them, oldest first. */
  readonly retries: readonly RetryInfo[];
  /** Number of attempts: 0 while the workflow is enqueued, 1 after its first start, 1 more after each recovery. */
  readonly attempts: number;
  /** ID of the executor that owns the workflow. */
  readonly executorId: string | undefined;
  /** Version of the app that runs the workflow. Undefined: the version that is the latest at the claim. */
  readonly version: string | undefined;
  /** App that the workflow belongs to. */
  readonly appName: string | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Latest start. A recovery counts as a start. */
  readonly startedAt: number | undefined;
  /** End of the workflow, whatever its outcome. */
  readonly completedAt: number | undefined;
  /** Time limit from start to completion, in milliseconds. */
  readonly timeoutMs: number | undefined;
  /** The workflow is cancelled at this instant unless it has ended before. */
  readonly deadlineAt: number | undefined;
  /** Workflow that started this workflow as a child. */
  readonly parentWorkflowId: string | undefined;
  /** Workflow that this fork repeats. Undefined if the workflow is not a fork. */
  readonly forkedFrom: string | undefined;
  /** True if this workflow has, or once had, a fork. */
  readonly wasForkedFrom: boolean;
  readonly queueName: string | undefined;
  /** Priority on the queue. Workflows with a lower value run first. */
  readonly priority: number;
  /** Deduplication ID of the workflow. */
  readonly dedupId: string | undefined;
  /** Partition of the queue that the workflow belongs to. */
  readonly partition: string | undefined;
  /** End of the delay, in epoch milliseconds, if the workflow is or was DELAYED. */
  readonly delayUntil: number | undefined;
  /** Schedule that started the workflow. */
  readonly scheduleName: string | undefined;
  /** User on whose behalf the workflow runs. */
  readonly user: string | undefined;
  /** Roles of that user. */
  readonly roles: readonly string[];
  /** Role that allowed the start of the workflow, or of its parent. */
  readonly assumedRole: string | undefined;
  /** Key-value pairs from `with({ attributes })`. */
  readonly attributes: Readonly<Record<string, unknown>> | undefined;
}

/** One retry of a failed workflow, with the failure that the retry continued from. */
export interface RetryInfo {
  readonly retriedAt: number;
  /** Executor whose process retried the workflow. Undefined if a client retried it. */
  readonly executorId: string | undefined;
  /** The option `fromStep` of the retry. */
  readonly fromStep: number | undefined;
  /** Error with which the workflow had ended. */
  readonly error: unknown;
  /** Instant at which the workflow had ended. */
  readonly failedAt: number | undefined;
  /** Steps that the retry deleted from the history. Such a step runs again if the code calls it again. */
  readonly dropped: readonly { readonly stepNumber: number; readonly name: string }[];
}

/** Decodes a stored workflow for users. */
export async function toInfo(codecs: Codecs, record: WorkflowRecord): Promise<WorkflowInfo> {
  const { serialization } = record;
  return {
    workflowId: record.workflowId,
    name: record.name,
    className: record.className ?? undefined,
    configName: record.configName ?? undefined,
    status: record.status,
    reason: record.statusReason ?? undefined,
    input: await readable(record.inputs, (text) => codecs.for(serialization).decodeArguments(text)),
    output: await readable(record.output, (text) => codecs.for(serialization).decode(text)),
    error: await readable(record.error, (text) => codecs.for(serialization).decodeError(text)),
    retries: await Promise.all(parseRetries(record.retries).map((each) => toRetryInfo(codecs, each))),
    attempts: record.attempts,
    executorId: record.executorId ?? undefined,
    version: record.version ?? undefined,
    appName: record.appName ?? undefined,
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
    startedAt: record.startedAt ?? undefined,
    completedAt: record.completedAt ?? undefined,
    timeoutMs: record.timeoutMs ?? undefined,
    deadlineAt: record.deadlineAt ?? undefined,
    parentWorkflowId: record.parentWorkflowId ?? undefined,
    forkedFrom: record.forkedFrom ?? undefined,
    wasForkedFrom: record.wasForkedFrom,
    queueName: record.queueName ?? undefined,
    priority: record.priority,
    dedupId: record.dedupId ?? undefined,
    partition: record.partition ?? undefined,
    delayUntil: record.delayUntil ?? undefined,
    scheduleName: record.scheduleName ?? undefined,
    user: record.user ?? undefined,
    roles: parseRoles(record.roles),
    assumedRole: record.assumedRole ?? undefined,
    attributes: parseJson(record.attributes),
  };
}

async function toRetryInfo(codecs: Codecs, mark: RetryMark): Promise<RetryInfo> {
  const { at, by, fromStep, error, serialization, failedAt, dropped } = mark;
  return {
    retriedAt: at,
    executorId: by === '' ? undefined : by,
    fromStep: fromStep ?? undefined,
    error: await readable(error, (text) => codecs.for(serialization).decodeError(text)),
    failedAt: failedAt ?? undefined,
    dropped,
  };
}

/**
 * Decodes a value; undefined if this process cannot decode it. One unreadable workflow must not hide the other
 * workflows of a list.
 */
export async function readable<T>(text: string | null, decode: (text: string) => T): Promise<Awaited<T> | undefined> {
  if (text === null) return undefined;
  try {
    return await decode(text);
  } catch {
    return undefined;
  }
}

function parseJson<T>(text: string | null): T | undefined {
  if (text === null) return undefined;
  try {
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}
