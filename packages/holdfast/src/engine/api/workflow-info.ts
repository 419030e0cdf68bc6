import type { Codecs } from '../../codec/codec.js';
import { parseRetries, type RetryMark } from '../../model/retries.js';
import type { WorkflowStatus } from '../../model/status.js';
import type { WorkflowRecord } from '../../storage/contract/storage.js';
import { parseRoles } from '../start/authorization.js';

/** A workflow as `status()`, `get` and `list` show it. */
export interface WorkflowInfo {
  readonly workflowId: string;
  readonly name: string;
  /** Of a method: its class; and of a method of an instance: the name of that. */
  readonly className: string | undefined;
  readonly configName: string | undefined;
  readonly status: WorkflowStatus;
  /** Why it is CANCELLED or STALLED, where that is known. */
  readonly reason: string | undefined;
  readonly input: readonly unknown[] | undefined;
  readonly output: unknown;
  readonly error: unknown;
  /** How it had failed before `retry` let it go on, oldest first. */
  readonly retries: readonly RetryInfo[];
  /** 0 while enqueued, 1 at its first start, one more at each recovery. */
  readonly attempts: number;
  readonly executorId: string | undefined;
  readonly version: string | undefined;
  readonly appName: string | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly startedAt: number | undefined;
  readonly completedAt: number | undefined;
  readonly timeoutMs: number | undefined;
  readonly deadlineAt: number | undefined;
  readonly parentWorkflowId: string | undefined;
  /** Of a fork: the workflow that it repeats. */
  readonly forkedFrom: string | undefined;
  /** Whether there are, or were, forks of it. */
  readonly wasForkedFrom: boolean;
  readonly queueName: string | undefined;
  readonly priority: number;
  readonly dedupId: string | undefined;
  readonly partition: string | undefined;
  /** Until when it is DELAYED, or was. */
  readonly delayUntil: number | undefined;
  readonly scheduleName: string | undefined;
  readonly user: string | undefined;
  readonly roles: readonly string[];
  readonly assumedRole: string | undefined;
  readonly attributes: Readonly<Record<string, unknown>> | undefined;
}

/** A retry of a workflow: who did it and when, and what it made of a failure. */
export interface RetryInfo {
  readonly retriedAt: number;
  /** The executor whose process did it; undefined: a client. */
  readonly executorId: string | undefined;
  /** The step that it was told to begin with. */
  readonly fromStep: number | undefined;
  /** The error that the workflow had ended with, and when that was. */
  readonly error: unknown;
  readonly failedAt: number | undefined;
  /** The steps that were taken off the record, to be run again if they are asked for. */
  readonly dropped: readonly { readonly stepNumber: number; readonly name: string }[];
}

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

/** One workflow whose values this process cannot read must not hide the others in a list. */
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
