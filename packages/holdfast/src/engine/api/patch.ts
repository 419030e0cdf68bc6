import { checkName } from '../../model/ids.js';
import { refuseOptions } from '../../model/options.js';
import type { Execution } from '../execution/execution.js';
import { once } from '../execution/once.js';
import { rejecting } from '../execution/rejecting.js';
import { requireExecution } from './context.js';

/**
 * Whether this execution takes the new way of a change in a workflow's code. True for executions that reach this
 * point for the first time (a marker records it), false for those that passed it with the old code.
 *
 *     if (await patch('charge-before-reserve')) { ...new order... } else { ...old order... }
 */
export function patch(name: string): Promise<boolean>;
export function patch(name: string, ...more: unknown[]): Promise<boolean> {
  return rejecting('patch()', () => {
    refuseOptions('patch()', more);
    const execution = requireExecution('patch()');
    const marker = markerName(name);
    const stepNumber = execution.stepCount;
    // Anything on record from here on was recorded by the old code, also when the very next step was still running at
    // the crash: a marker put in front of it would shift every later step by one.
    if (!isNext(execution, marker) && execution.history?.reaches(stepNumber)) return Promise.resolve(false);
    const marked = recordMarker(execution, marker).then(() => true);
    return execution.calls.follow(marker, stepNumber, marked);
  });
}

/** Stands in for `patch(name)` once no execution is left on the old way. Remove it when those with a marker are done. */
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
