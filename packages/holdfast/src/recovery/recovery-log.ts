import type { Engine } from '../engine/engine.js';
import { cancelledError } from '../engine/execution/workflow-errors.js';
import { otherVersion } from '../engine/warn-once.js';
import { describeKey, keyText, type WorkflowKey } from '../model/workflow-key.js';
import type { Left, Page } from './takeover.js';

/** The log lines of recovery. A state that does not change is logged once. The memory for that is bounded. */
export class RecoveryLog {
  /** The last line about workflows that wait for an operator, by workflow name. */
  private readonly lastForOperator = new Map<string, string>();
  /** Deaths after which stranded work was searched for. */
  private readonly searchedAfter = new Set<string>();

  constructor(private readonly engine: Engine) {}

  /** Logs cancelled and stalled workflows, which need attention because recovery does not resume them. */
  acted({ cancelled, putBack }: Page): void {
    const { logger } = this.engine;
    for (const { workflowId, reason } of cancelled) logger.warn(cancelledError(workflowId, reason).message);
    for (const each of putBack) {
      if (each.status !== 'STALLED') continue;
      logger.warn(
        `Workflow "${each.workflowId}" (${describeKey(each)}) is now STALLED: its process died, and it has ` +
          'resumable: false. app.workflows.resume() starts it again.',
      );
    }
  }

  /**
   * Logs workflows that could be taken over but were not: they are not registered here, or wait for an operator.
   * Returns true if a retry may take them over.
   */
  left(left: Left, next: string): boolean {
    const { registry } = this.engine;
    let isUnfinished = false;
    for (const { workflowId, count, ...key } of left) {
      const definition = registry.get(key);
      if (definition && !registry.policyOf(definition).autoResume) this.waitsForOperator(key, workflowId, count);
      else isUnfinished = true;
      if (!definition) this.unregistered(key, workflowId, next);
    }
    return isUnfinished;
  }

  /**
   * Returns the deaths after which stranded work was not yet searched for. Forgets deaths that are not in the list.
   */
  fresh<T extends { readonly incarnation: string }>(deaths: readonly T[]): readonly T[] {
    const current = new Set(deaths.map(({ incarnation }) => incarnation));
    for (const incarnation of this.searchedAfter) if (!current.has(incarnation)) this.searchedAfter.delete(incarnation);
    return deaths.filter(({ incarnation }) => !this.searchedAfter.has(incarnation));
  }

  /** Logs unfinished work of versions that no process runs, and notes that these deaths are handled. */
  stranded(
    versions: readonly { readonly version: string; readonly count: number }[],
    deaths: readonly { readonly incarnation: string }[],
  ): void {
    for (const { incarnation } of deaths) this.searchedAfter.add(incarnation);
    for (const { version, count } of versions) {
      const what = count === 1 ? 'One unfinished workflow' : `${count} unfinished workflows`;
      this.engine.warnOnce(
        otherVersion(version),
        `${what} of version "${version}" ${count === 1 ? 'was' : 'were'} left by executors that are dead, and no ` +
          'process of that version is alive. Launch one to continue this work.',
      );
    }
  }

  private waitsForOperator(key: WorkflowKey, workflowId: string, count: number): void {
    const summary = `${workflowId} ${count}`;
    if (this.lastForOperator.get(keyText(key)) === summary) return;
    this.lastForOperator.set(keyText(key), summary);
    const others = count > 1 ? ` and ${count - 1} more of "${describeKey(key)}" wait` : ` (${describeKey(key)}) waits`;
    this.engine.logger.warn(
      `Workflow "${workflowId}"${others} for an operator: the process died, and autoResume is false. ` +
        'app.recovery.incomplete() lists such work, and app.recovery.recover() resumes it.',
    );
  }

  private unregistered(key: WorkflowKey, workflowId: string, next: string): void {
    const { className, configName } = key;
    const what = `Workflow "${workflowId}" cannot be recovered: no workflow named "${describeKey(key)}" is registered.`;
    if (className === null) {
      this.engine.logger.warn(`${what} Give it to launch() or app.register(); ${next}.`);
      return;
    }
    const advice =
      configName === null
        ? `Give the class "${className}" to launch() or app.register()`
        : `Construct the instance "${configName}" of class "${className}", and give the class to launch()`;
    // All work of an instance gets one warning: there may be many workflows, and the instance may be constructed late.
    this.engine.warnOnce(`recovery of ${keyText(key)}`, `${what} ${advice}; ${next}.`);
  }
}
