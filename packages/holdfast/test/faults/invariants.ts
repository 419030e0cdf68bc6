import type { Entry } from './ledger.js';
import { isCompleted, isEnded, outcomeOf, type Row, type Rows } from './rows.js';

/** What is known of some workflows once the faults are over: the ledger's entries and the final rows. */
export interface Evidence extends Rows {
  readonly entries: readonly Entry[];
}

/** Returns which workflows break the rule, and how. The result is empty if none does. */
export type Check = (evidence: Evidence) => string[];

/** I1: one checkpoint per step, one place in the completion order per result, no body begun after its checkpoint. */
export const atMostOneCheckpoint: Check = ({ steps, entries }) => {
  const keys = steps.map((step) => `${step.workflow_uuid}#${step.function_id}`);
  const places = steps
    .filter((step) => step.completion_seq !== null)
    .map((step) => `${step.workflow_uuid} at place ${step.completion_seq}`);
  return [
    ...repeated(keys).map((key) => `I1: ${key} has two checkpoints`),
    ...repeated(places).map((place) => `I1: two results of ${place} of the completion order`),
    ...startsAfterCommit(entries).map((key) => `I1: the body of ${key} began after its checkpoint was committed`),
  ];
};

/** A recorded step implies that the last result which the code saw before the step is recorded too. */
export const noHoles: Check = ({ steps }) => {
  const placeOf = (step: Row, place: unknown): string => `${step.workflow_uuid} ${place}`;
  const places = new Set(steps.filter((step) => step.completion_seq !== null).map((s) => placeOf(s, s.completion_seq)));
  return steps
    .filter((step) => Number(step.requested_after ?? -1) >= 0 && !places.has(placeOf(step, step.requested_after)))
    .map(
      (step) =>
        `holes: ${step.workflow_uuid}#${step.function_id} came after result ${step.requested_after}, which is gone`,
    );
};

/** I3: an outcome does not change once it exists. */
export const outcomesStay: Check = ({ workflows, entries }) => {
  const now = new Map(
    workflows.map((row) => [String(row.workflow_uuid), isEnded(row) ? outcomeOf(row) : 'unfinished']),
  );
  const found = new Map<string, string>();
  const violations: string[] = [];
  const compare = (id: string, outcome: string): void => {
    const first = found.get(id) ?? outcome;
    found.set(id, first);
    if (first !== outcome) violations.push(`I3: the outcome of ${id} was ${first} and is ${outcome}`);
  };
  for (const { kind, workflowId, detail } of entries) if (kind === 'outcome') compare(workflowId, String(detail));
  for (const id of [...found.keys()]) compare(id, now.get(id) ?? 'gone');
  return violations;
};

/** I4: every acknowledged start has ended. */
export const ackedStartsEnd: Check = ({ workflows, entries }) => {
  const ended = new Set(workflows.filter(isEnded).map((row) => row.workflow_uuid));
  const acked = new Set(entries.filter((entry) => entry.kind === 'ack').map((entry) => entry.workflowId));
  return [...acked]
    .filter((id) => !ended.has(id))
    .map((id) => `I4: the start of ${id} was acknowledged, but no end came`);
};

/** I5: every recorded step took effect. */
export const recordedStepsTookEffect: Check = ({ steps, entries }) => {
  const effects = new Set(entries.filter((entry) => entry.kind === 'end').map(stepOf));
  return steps
    .filter((step) => hasBody(step) && isCompleted(step))
    .map((step) => `${step.workflow_uuid}#${step.function_id}`)
    .filter((key) => !effects.has(key))
    .map((key) => `I5: ${key} is on record, but its body never ran to its end`);
};

/** I8: every observer of a result got the same result, and that result is the recorded one. */
export const observersAgree: Check = ({ workflows, entries }) => {
  const recorded = new Map(workflows.filter(isEnded).map((row) => [String(row.workflow_uuid), recordedResult(row)]));
  return entries
    .filter((entry) => entry.kind === 'result' && entry.detail !== recorded.get(entry.workflowId))
    .map(({ workflowId, by, detail }) => {
      return `I8: ${by} got ${detail} from ${workflowId}, and ${recorded.get(workflowId) ?? 'nothing'} is on record`;
    });
};

const everyCheck: readonly Check[] = [
  atMostOneCheckpoint,
  noHoles,
  outcomesStay,
  ackedStartsEnd,
  recordedStepsTookEffect,
  observersAgree,
];

export function violations(evidence: Evidence): string[] {
  return everyCheck.flatMap((check) => check(evidence));
}

/** Formats a result as observers write it into the ledger. Fixtures of these tests return plain JSON only. */
function recordedResult(workflow: Row): string {
  const { status, output, error } = workflow;
  const text = status === 'SUCCESS' ? output : error;
  const value = text === null ? null : (JSON.parse(String(text)) as { json?: unknown }).json;
  return JSON.stringify({ status, value: status === 'SUCCESS' ? value : (value as Error | null)?.message });
}

/**
 * Internal steps (sleeps, waits for results) and starts of children, even refused ones, have no body with an effect.
 */
function hasBody(step: Row): boolean {
  const isRefused = String(step.error ?? '').includes('"NOT_AUTHORIZED"');
  return !String(step.function_name).startsWith('DBOS.') && step.child_workflow_id === null && !isRefused;
}

function startsAfterCommit(entries: readonly Entry[]): string[] {
  const committed = new Set<string>();
  const late: string[] = [];
  for (const entry of entries) {
    if (entry.kind === 'committed') committed.add(stepOf(entry));
    if (entry.kind === 'start' && committed.has(stepOf(entry))) late.push(stepOf(entry));
  }
  return late;
}

function stepOf(entry: Entry): string {
  return `${entry.workflowId}#${entry.stepNumber}`;
}

function repeated(values: readonly string[]): string[] {
  const seen = new Set<string>();
  return values.filter((value) => seen.size === seen.add(value).size);
}
