import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { afterChange } from '../storage/contract/failure.js';
import { type IncompleteOptions, type IncompleteWorkflow, listIncomplete } from './incomplete.js';
import type { Recovery } from './recovery.js';
import type { SweepReport } from './report.js';
import type { RecoveringEngine } from './takeover.js';

/** Whose work to recover: executors that are known to be dead, or single workflows. */
export type RecoverTarget =
  | readonly string[]
  | { readonly executorIds: readonly string[] }
  | { readonly workflowIds: readonly string[] };

/** `app.recovery`: what becomes of work whose process died. */
export interface RecoveryOperations {
  /** PENDING work, whose it is, and what recovery will do about it and when. */
  incomplete(options?: IncompleteOptions): Promise<IncompleteWorkflow[]>;
  /**
   * Puts work of dead executors (a list of their IDs) back to be run, whether or not it would be resumed by itself; or
   * single workflows, whatever their policy says. A live executor is fenced off from what is taken from it. Returns
   * handles of what was put back.
   */
  recover(target: RecoverTarget): Promise<WorkflowHandle[]>;
  /** Looks for work of dead executors now. With `dryRun` nothing is changed: the report says what would be. */
  sweep(options?: { readonly dryRun?: boolean }): Promise<SweepReport>;
}

export function recoveryOperations(engine: RecoveringEngine, recovery: Recovery): RecoveryOperations {
  return {
    incomplete: async (options) => {
      engine.checkOpen();
      return listIncomplete(engine, recovery.knowledge, options);
    },
    recover: async (target) => {
      engine.checkOpen();
      const checked = checkTarget(target);
      const ids = await afterChange(() => recovery.recover(checked));
      return ids.map((id) => createHandle(engine, id));
    },
    sweep: async (options = {}) => {
      engine.checkOpen();
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
    throw invalidOption('recover()', 'executorIds', executorIds, 'given, or "workflowIds", and not both');
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
