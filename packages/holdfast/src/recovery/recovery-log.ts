import type { Engine } from '../engine/engine.js';
import { cancelledError } from '../engine/execution/workflow-errors.js';
import { otherVersion } from '../engine/warn-once.js';
import { describeKey, keyText, type WorkflowKey } from '../model/workflow-key.js';
import type { Left, Page } from './takeover.js';

/** What recovery says to those who read the log. Each thing that stays as it is, is said once, in bounded memory. */
export class RecoveryLog {
  /** What was last said of the workflows of a name that wait for an operator. */
  private readonly forOperator = new Map<string, string>();
  /** Deaths after which stranded work was looked for. */
  private readonly lookedAfter = new Set<string>();

  constructor(private readonly engine: Engine) {}

  /** What must not go by unnoticed: nobody resumes these by himself. */
  acted({ cancelled, putBack }: Page): void {
    const { logger } = this.engine;
    for (const { workflowId, reason } of cancelled) logger.warn(cancelledError(workflowId, reason).message);
    for (const each of putBack) {
      if (each.status !== 'STALLED') continue;
      logger.warn(
        `Workflow "${each.workflowId}" (${describeKey(each)}) was set aside as STALLED: its process died, and it is not to ` +
          'be resumed by itself. app.workflows.resume() starts it again.',
      );
    }
  }

  /** What is free and was not taken: unknown here, or for an operator to decide on. Returns whether trying again may help. */
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

  /** Of these deaths, those after which stranded work was not looked for yet. The memory of others goes. */
  fresh<T extends { readonly incarnation: string }>(deaths: readonly T[]): readonly T[] {
    const now = new Set(deaths.map(({ incarnation }) => incarnation));
    for (const incarnation of this.lookedAfter) if (!now.has(incarnation)) this.lookedAfter.delete(incarnation);
    return deaths.filter(({ incarnation }) => !this.lookedAfter.has(incarnation));
  }

  stranded(
    versions: readonly { readonly version: string; readonly count: number }[],
    deaths: readonly { readonly incarnation: string }[],
  ): void {
    for (const { incarnation } of deaths) this.lookedAfter.add(incarnation);
    for (const { version, count } of versions) {
      const what = count === 1 ? 'One unfinished workflow' : `${count} unfinished workflows`;
      this.engine.warnOnce(
        otherVersion(version),
        `${what} of version "${version}" ${count === 1 ? 'was' : 'were'} left by executors that are dead, and no process of ` +
          'that version is alive: launch one, and it goes on with such work.',
      );
    }
  }

  private waitsForOperator(key: WorkflowKey, workflowId: string, count: number): void {
    const text = `${workflowId} ${count}`;
    if (this.forOperator.get(keyText(key)) === text) return;
    this.forOperator.set(keyText(key), text);
    const others = count > 1 ? ` and ${count - 1} more of "${describeKey(key)}" wait` : ` (${describeKey(key)}) waits`;
    this.engine.logger.warn(
      `Workflow "${workflowId}"${others} for an operator: the process died, and autoResume is false. ` +
        'app.recovery.incomplete() lists such work, app.recovery.recover() goes on with it.',
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
    // Once for all of an instance's work: there may be much of it, and the instance may take its time.
    this.engine.warnOnce(`recovery of ${keyText(key)}`, `${what} ${advice}; ${next}.`);
  }
}
