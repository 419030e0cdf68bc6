import { AsyncLocalStorage } from 'node:async_hooks';
import { ofOtherReleases, processWide } from '../../model/process-wide.js';

/**
 * Carries the scope of a workflow or step (context.ts) through the calls of its code. It keeps no state of any engine.
 * Copies of the package share it, so that a workflow of one copy records the steps of another copy.
 */
export const scopeStorage = processWide('scope', () => new AsyncLocalStorage<unknown>());

/**
 * Returns the release whose workflow function makes the call, if that release is not ours. Our code cannot record the
 * call in that workflow.
 */
export function otherReleaseCalling(): string | undefined {
  return ofOtherReleases('scope').find(({ value }) => {
    const scope = (value as AsyncLocalStorage<{ readonly step?: unknown }> | undefined)?.getStore();
    return scope !== undefined && scope.step === undefined;
  })?.release;
}

/**
 * Runs `fn` outside of any workflow, whatever code makes the call: code of one workflow must not act in the name of
 * another.
 */
export function runOutsideScope<R>(fn: () => R): R {
  return scopeStorage.run(undefined, fn);
}
