import assert from 'node:assert/strict';
import type { App } from '../app/app.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import type { AttemptCounts } from './running-steps.js';

/** A recorded step of a workflow, for assertions in tests. */
export interface RecordedStep {
  readonly name: string;
  readonly stepNumber: number;
  /** How the step ended. `waiting`: only its beginning is recorded, for example of a sleep. */
  readonly outcome: 'returned' | 'threw' | 'waiting';
  /** The value that the step returned. */
  readonly result: unknown;
  /** The error that the step threw. */
  readonly error: unknown;
  /** Number of attempts that this test has run. 0 for calls without attempts, such as a sleep or a message. */
  readonly attempts: number;
}

/**
 * The expectation for one step: its name, or some of the properties of {@link RecordedStep}. `error` can be the
 * message of an error.
 *
 * @example
 * await test.assertSteps('order-1', [{ name: 'charge', attempts: 2 }, 'send mail']);
 */
export type ExpectedStep = string | (Partial<Omit<RecordedStep, 'error'>> & { readonly error?: unknown });

/** Returns the recorded steps of a workflow, in the order in which its code called them. */
export async function recordedSteps(app: App, workflowId: string, counts: AttemptCounts): Promise<RecordedStep[]> {
  const steps = await app.workflows.steps(workflowId);
  // Without this check, a misspelled ID would look like a workflow without steps.
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

/** Throws an AssertionError with the difference. Works in every test framework. */
export function assertRecorded(actual: readonly RecordedStep[], expected: readonly ExpectedStep[]): void {
  const shown = actual.map((step, index) => asExpected(step, expected[index]));
  assert.deepStrictEqual(shown, expected);
}

/** Reduces a step to the properties that the test expects. */
function asExpected(step: RecordedStep, expected: ExpectedStep | undefined): unknown {
  if (expected === undefined || typeof expected === 'string') return step.name;
  const facts = Object.keys(expected).map((key) => [key, step[key as keyof RecordedStep]]);
  const shown = Object.fromEntries(facts);
  if (typeof expected.error === 'string' && step.error instanceof Error) shown.error = step.error.message;
  return shown;
}
