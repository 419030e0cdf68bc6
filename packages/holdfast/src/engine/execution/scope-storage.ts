import { AsyncLocalStorage } from 'node:async_hooks';
import { ofOtherReleases, processWide } from '../../model/process-wide.js';

/**
 * Carries the scope of a workflow or step (context.ts) through the calls that its code makes. It holds nothing of any
 * engine. Copies of the package share it, so that a workflow of one copy records the steps of another.
 */
export const carrier = processWide('scope', () => new AsyncLocalStorage<unknown>());

/** The release whose workflow function is calling, if that is not ours: our code could not record what it does there. */
export function otherReleaseCalling(): string | undefined {
  return ofOtherReleases('scope').find(({ value }) => {
    const scope = (value as AsyncLocalStorage<{ readonly step?: unknown }> | undefined)?.getStore();
    return scope !== undefined && scope.step === undefined;
  })?.release;
}

/** Runs `fn` in no workflow, whoever calls: code of one workflow must not act in the name of another. */
export function outside<R>(fn: () => R): R {
  return carrier.run(undefined, fn);
}
