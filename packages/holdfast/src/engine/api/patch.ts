import { checkName } from '../../model/ids.js';
import { refuseOptions } from '../../model/options.js';
import type { Execution } from '../execution/execution.js';
import { once } from '../execution/once.js';
import { rejecting } from '../execution/rejecting.js';
import { requireExecution } from './context.js';

/**
 * Guards a change in the code of a workflow while unfinished workflows still depend on the old code. Resolves with true
 * for a workflow that reaches this point for the first time, and records a marker. Resolves with false for a workflow
 * that passed this point with the old code.
 *
 * @example
 * ```ts
 * if (await patch('reserve-before-charge')) {
 *   await reserve(order);
 *   await charge(order);
 * } else {
 *   await charge(order);
 *   await reserve(order);
 * }
 * ```
 */
export function patch(name: string): Promise<boolean>;
export function patch(name: string, ...more: unknown[]): Promise<boolean> {
  return rejecting('patch()', () => {
    refuseOptions('patch()', more);
    const execution = requireExecution('patch()');
    const marker = markerName(name);
    const stepNumber = execution.stepCount;
    // Any step that is recorded from here on was recorded by the old code. This includes the case that the very next
    // step was still running at the crash: a marker in front of that step would shift every later step by one.
    if (!isNext(execution, marker) && execution.history?.reaches(stepNumber)) return Promise.resolve(false);
    const marked = recordMarker(execution, marker).then(() => true);
    return execution.calls.follow(marker, stepNumber, marked);
  });
}

/**
 * Replaces `patch(name)` once no unfinished workflow runs the old code. Workflows that recorded the marker still match
 * their history. Remove the call when all of these workflows have ended.
 *
 * @example
 * ```ts
 * // Before: if (await patch('reserve-before-charge')) { ... } else { ... }
 * await deprecatePatch('reserve-before-charge');
 * await reserve(order);
 * await charge(order);
 * ```
 */
export function deprecatePatch(name: string): Promise<void>;
export function deprecatePatch(name: string, ...more: unknown[]): Promise<void> {
  return rejecting('deprecatePatch()', () => {
    refuseOptions('deprecatePatch()', more);
    const execution = requireExecution('deprecatePatch()');
    const marker = markerName(name);
    return isNext(execution, marker) ? recordMarker(execution, marker) : Promise.resolve();
  });
}

function markerName(name: string): string {
  return `DBOS.patch-${checkName('A patch name', name)}`;
}

function isNext(execution: Execution, marker: string): boolean {
  return execution.history?.peek(execution.stepCount)?.name === marker;
}

function recordMarker(execution: Execution, marker: string): Promise<void> {
  const startedAt = execution.engine.clock.now();
  return once(execution, marker, async () => ({
    output: null,
    error: null,
    serialization: null,
    childWorkflowId: null,
    startedAt,
    begun: false,
    result: { ok: true, value: undefined },
  }));
}
