import assert from 'node:assert/strict';
import type { App } from '../app/app.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import type { AttemptCounts } from './running-steps.js';

/** A step that a workflow has on record, for a test to look at. */
export interface RecordedStep {
  readonly name: string;
  readonly stepNumber: number;
  /** `waiting`: only its beginning is on record, as of a sleep. */
  readonly outcome: 'returned' | 'threw' | 'waiting';
  /** What it returned. */
  readonly result: unknown;
  /** What it threw. */
  readonly error: unknown;
  /** How many attempts of it this test has run. 0 for what has no attempts, such as a sleep or a message. */
  readonly attempts: number;
}

/** What a test expects of one step: its name, or any of its facts. An error may be given by its message. */
export type ExpectedStep = string | (Partial<Omit<RecordedStep, 'error'>> & { readonly error?: unknown });

/** The steps that a workflow has on record, in the order in which its code called them. */
export async function recordedSteps(app: App, workflowId: string, counts: AttemptCounts): Promise<RecordedStep[]> {
  const steps = await app.workflows.steps(workflowId);
  // An ID that is misspelt would pass for a workflow that did nothing.
  if (steps.length === 0 && !(await app.workflows.get(workflowId))) throw notFoundError(workflowId);
  return steps.map(({ name, stepNumber, output, error, completedAt }) => ({
    name,
    stepNumber,
    outcome: completedAt === undefined ? 'waiting' : error === undefined ? 'returned' : 'threw',
    result: output,
    error,
    attempts: counts.of(workflowId, stepNumber),
  }));
}

/** Throws an AssertionError with the difference, in any test framework. */
export function assertRecorded(actual: readonly RecordedStep[], expected: readonly ExpectedStep[]): void {
  const shown = actual.map((step, index) => asExpected(step, expected[index]));
  assert.deepStrictEqual(shown, expected);
}

/** The step as far as the test says something about it. */
function asExpected(step: RecordedStep, expected: ExpectedStep | undefined): unknown {
  if (expected === undefined || typeof expected === 'string') return step.name;
  const facts = Object.keys(expected).map((key) => [key, step[key as keyof RecordedStep]]);
  const shown = Object.fromEntries(facts);
  if (typeof expected.error === 'string' && step.error instanceof Error) shown.error = step.error.message;
  return shown;
}
