import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import type { Engine } from '../engine/engine.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { afterChange } from '../storage/contract/failure.js';
import { type IncompleteOptions, type IncompleteWorkflow, listIncomplete } from './incomplete.js';
import type { Recovery } from './recovery.js';
import type { SweepReport } from './report.js';

/**
 * The work to recover: all work of executors that you know to be dead (by executor ID), or single workflows (by ID).
 */
export type RecoverTarget =
  | readonly string[]
  | { readonly executorIds: readonly string[] }
  | { readonly workflowIds: readonly string[] };

/** `app.recovery`: lists and recovers unfinished workflows of processes that died. */
export interface RecoveryOperations {
  /**
   * Lists unfinished workflows with their executors, and says what recovery will do with each workflow, and when.
   *
   * @example
   * for (const { workflowId, executor, plan } of await app.recovery.incomplete({ name: 'checkout' })) {
   *   console.log(workflowId, executor, plan.action, plan.because);
   * }
   */
  incomplete(options?: IncompleteOptions): Promise<IncompleteWorkflow[]>;
  /**
   * Puts unfinished workflows back on their queues now, and returns their handles.
   *
   * With executor IDs: all work of these executors, even with `autoResume: false`. The rest of the recovery policy
   * applies. If one of the executors is alive after all, it can no longer write to the workflows taken from it.
   *
   * With `workflowIds`: these workflows, whatever their policy says, unless a live executor owns them.
   *
   * @example
   * const handles = await app.recovery.recover(['worker-3']);
   * await app.recovery.recover({ workflowIds: ['order-7'] });
   */
  recover(target: RecoverTarget): Promise<WorkflowHandle[]>;
  /**
   * Recovers the work of all dead executors now, and reports what was done. With `dryRun: true` nothing changes: the
   * report says what a sweep would do.
   *
   * @example
   * const { taken, waiting, plan } = await app.recovery.sweep({ dryRun: true });
   */
  sweep(options?: { readonly dryRun?: boolean }): Promise<SweepReport>;
}

export function recoveryOperations(engine: Engine, recovery: Recovery): RecoveryOperations {
  return {
    incomplete: async (options) => {
      engine.lifecycle.checkOpen();
      return listIncomplete(engine, recovery.knowledge, options);
    },
    recover: async (target) => {
      engine.lifecycle.checkOpen();
      const checked = checkTarget(target);
      const ids = await afterChange(() => recovery.recover(checked));
      return ids.map((id) => createHandle(engine, id));
    },
    sweep: async (options = {}) => {
      engine.lifecycle.checkOpen();
      checkKnownOptions('sweep()', options, ['dryRun']);
      const { dryRun = false } = options;
      if (typeof dryRun !== 'boolean') throw invalidOption('sweep()', 'dryRun', dryRun, 'true or false');
      return afterChange(
        () => recovery.sweep(dryRun),
        () => !dryRun,
      );
    },
  };
}

function checkTarget(target: RecoverTarget): Exclude<RecoverTarget, readonly string[]> {
  if (isList(target)) return { executorIds: checkIds('executorIds', 'An executor ID', target) };
  checkKnownOptions('recover()', target, ['executorIds', 'workflowIds']);
  const { executorIds, workflowIds } = target as { executorIds?: readonly string[]; workflowIds?: readonly string[] };
  if ((executorIds === undefined) === (workflowIds === undefined)) {
    throw invalidOption('recover()', 'executorIds', executorIds, 'given if, and only if, "workflowIds" is left out');
  }
  return workflowIds === undefined
    ? { executorIds: checkIds('executorIds', 'An executor ID', executorIds) }
    : { workflowIds: checkIds('workflowIds', 'A workflow ID', workflowIds) };
}

function isList(target: RecoverTarget): target is readonly string[] {
  return Array.isArray(target);
}

function checkIds(option: string, what: string, ids: readonly string[] | undefined): readonly string[] {
  if (!Array.isArray(ids)) throw invalidOption('recover()', option, ids, 'a list of IDs');
  for (const id of ids) checkName(what, id);
  return ids;
}
