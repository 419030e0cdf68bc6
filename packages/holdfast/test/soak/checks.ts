import { errorCodes } from '../../src/model/errors.js';
import { atMostOneCheckpoint, noHoles, observersAgree, recordedStepsTookEffect } from '../faults/invariants.js';
import { isEnded, outcomeOf, type Row } from '../faults/rows.js';
import { groupBy, rootOf, type SoakEvidence, storedValue } from './evidence.js';
import type { Job } from './jobs.js';
import { queueLimits } from './jobs.js';
import { messagesOnce, streamsWhole } from './messaging-checks.js';

/**
 * What must be true when a soak is over (I1 to I8 of the fault catalogue). Each check is a function of the evidence
 * alone, and returns which workflows break the rule, and how. checks.test.ts plants a violation of each rule.
 */
export type SoakCheck = (evidence: SoakEvidence) => string[];

/**
 * I2: only the owner of a workflow writes its checkpoints. The database itself compares writer and owner
 * (witness.ts).
 */
export const onlyOwnersWrite: SoakCheck = ({ intrusions }) =>
  intrusions.map((row) => `I2: process ${row.pid} wrote ${row.workflow_uuid}#${row.function_id} of ${row.executor_id}`);

/** I3: an outcome does not change, except for a cancellation after which an operator resumed the workflow. */
export const outcomesStay: SoakCheck = ({ workflows, entries }) => {
  const now = new Map(
    workflows.map((row) => [String(row.workflow_uuid), isEnded(row) ? outcomeOf(row) : 'unfinished']),
  );
  const seen = new Map<string, string>();
  const resumed = new Set<string>();
  const found: string[] = [];
  const compare = (id: string, outcome: string): void => {
    const before = seen.get(id) ?? outcome;
    seen.set(id, outcome);
    const mayChange = resumed.has(id) && statusIn(before) === 'CANCELLED';
    if (before !== outcome && !mayChange) found.push(`I3: the outcome of ${id} was ${before} and is ${outcome}`);
  };
  for (const { kind, workflowId, detail } of entries) {
    if (kind === 'resume') resumed.add(workflowId);
    if (kind === 'outcome') compare(workflowId, String(detail));
  }
  for (const id of [...seen.keys()]) compare(id, now.get(id) ?? 'gone');
  return found;
};

function statusIn(outcome: string): unknown {
  return outcome.startsWith('{') ? (JSON.parse(outcome) as { status: unknown }).status : outcome;
}

/** I4: every started workflow has ended, even if no client knows that it was started. */
export const everythingEnds: SoakCheck = ({ workflows, entries }) => {
  const ids = new Set(workflows.map((row) => row.workflow_uuid));
  const lost = entries.filter(({ kind, workflowId }) => kind === 'ack' && !ids.has(workflowId));
  return [
    ...lost.map(({ workflowId }) => `I4: the start of ${workflowId} was acknowledged, and it is not there`),
    ...workflows
      .filter((row) => !isEnded(row))
      .map((row) => `I4: ${row.workflow_uuid} is still ${row.status} (executor ${row.executor_id})`),
  ];
};

/** Retention: no workflow is deleted before its end, or while it is a child of an unfinished workflow. */
export const onlyEndedGo: SoakCheck = ({ gone }) =>
  gone
    .filter((row) => !isEnded(row) || row.was_needed === true)
    .map(
      (row) => `retention: ${row.workflow_uuid} was deleted as ${row.status}${row.was_needed ? ', and needed' : ''}`,
    );

/** The results of the children of a program, by the last part of their ID. */
const ofChildren: Record<string, unknown> = { c: 3, d: 1, e: 'echoed' };

/**
 * I4 and I8: a workflow has the outcome that follows from its arguments. Only its timeout or an operator cancels it.
 */
export const endsAsItShould: SoakCheck = ({ workflows, entries }) => {
  const asked = new Map<string, Pick<Job, 'expected' | 'ending'>>();
  const cancelled = new Set<string>();
  for (const { kind, workflowId, detail } of entries) {
    if (kind === 'asked') asked.set(workflowId, JSON.parse(String(detail)));
    if (kind === 'cancel') cancelled.add(workflowId);
  }
  const problemOf = (row: Row): string | undefined => {
    const id = String(row.workflow_uuid);
    const child = id === rootOf(id) ? undefined : (id.split('.')[1] as string)[0];
    const job = child ? { expected: ofChildren[child], ending: 'SUCCESS' as const } : asked.get(id);
    if (!job) return 'nobody asked for it';
    if (row.status === 'CANCELLED' && cancelled.has(rootOf(id)) && child !== 'd') return undefined;
    if (row.status !== job.ending) return `it ended as ${row.status} (${row.status_reason ?? row.error})`;
    const message = (storedValue(row.error) as Error | undefined)?.message;
    if (row.status === 'ERROR') return message === 'planned failure' ? undefined : `it failed with ${row.error}`;
    const isRight =
      row.status !== 'SUCCESS' || JSON.stringify(storedValue(row.output)) === JSON.stringify(job.expected);
    return isRight ? undefined : `it returned ${row.output} instead of ${JSON.stringify(job.expected)}`;
  };
  return workflows.filter(isEnded).flatMap((row) => {
    const problem = problemOf(row);
    return problem === undefined ? [] : [`I4: ${row.workflow_uuid}: ${problem}`];
  });
};

/** I5: a transaction took effect once if its step is recorded, and otherwise not at all. */
export const transactionsOnce: SoakCheck = ({ steps, counters }) => {
  const recorded = new Set(
    steps.filter((step) => step.function_name === 'bump').map((step) => `${step.workflow_uuid}#${step.function_id}`),
  );
  const counts = new Map(counters.map((row) => [String(row.id), Number(row.n)]));
  return [
    ...[...recorded]
      .filter((key) => counts.get(key) !== 1)
      .map((key) => `I5: the transaction ${key} took effect ${counts.get(key) ?? 0} times`),
    ...[...counts.keys()]
      .filter((key) => !recorded.has(key))
      .map((key) => `I5: the transaction ${key} took effect, and is not on record`),
  ];
};

/** I7: every error that reached user code or the process has a documented type. */
export const errorsAreDocumented: SoakCheck = ({ entries }) =>
  entries.flatMap(({ kind, workflowId, by, detail }) => {
    if (kind === 'stray') return [`I7: ${by}: ${detail}`];
    if (kind !== 'thrown' && kind !== 'told') return [];
    const [code = '', ...message] = String(detail).split(' ');
    if (code in errorCodes || message.join(' ').startsWith('planned')) return [];
    return [`I7: ${by} was given an error of no documented type at ${workflowId || 'a call'}: ${detail}`];
  });

/**
 * I8: every observer got the recorded result. A cancellation that was observed before a resume was correct at that
 * time.
 */
export const everyoneAgrees: SoakCheck = (evidence) => {
  const resumed = new Set(evidence.entries.filter(({ kind }) => kind === 'resume').map(({ workflowId }) => workflowId));
  const wasRight = ({ workflowId, detail }: { workflowId: string; detail: string | null }): boolean =>
    resumed.has(workflowId) && detail === JSON.stringify({ status: 'CANCELLED' });
  return observersAgree({ ...evidence, entries: evidence.entries.filter((entry) => !wasRight(entry)) });
};

/** Queues: the number of workflows whose owners can commit never exceeds the limits. */
export const limitsHold: SoakCheck = ({ peaks }) => {
  const whole = (['limited', 'changing', 'shared'] as const).map(
    (name) => [name, queueLimits[name].concurrency] as const,
  );
  const partitions = Object.keys(peaks.partitions).filter((key) => key.startsWith('parted '));
  return [
    ...whole
      .filter(([name, limit]) => (peaks.queues[name] ?? 0) > limit)
      .map(([name, limit]) => `limits: ${peaks.queues[name]} ran at once on queue ${name}, which allows ${limit}`),
    ...partitions
      .filter((key) => (peaks.partitions[key] ?? 0) > queueLimits.parted.concurrency)
      .map((key) => `limits: ${peaks.partitions[key]} ran at once in partition ${key}`),
  ];
};

const everyCheck: readonly SoakCheck[] = [
  atMostOneCheckpoint,
  noHoles,
  onlyOwnersWrite,
  outcomesStay,
  everythingEnds,
  endsAsItShould,
  recordedStepsTookEffect,
  transactionsOnce,
  messagesOnce,
  streamsWhole,
  errorsAreDocumented,
  everyoneAgrees,
  limitsHold,
  onlyEndedGo,
];

export function soakViolations(evidence: SoakEvidence): string[] {
  return everyCheck.flatMap((check) => check(evidence));
}

/** The number of violations of each kind, for the first line of a report. */
export function violationsByKind(found: readonly string[]): string {
  const kinds = groupBy(found, (text) => text.split(':')[0] as string);
  return [...kinds].map(([kind, all]) => `${kind} ${all.length}`).join(', ');
}
