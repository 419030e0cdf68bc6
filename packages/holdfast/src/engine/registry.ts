import { HoldfastError } from '../model/errors.js';
import { defaultRecovery, policyFor, type RecoveryPolicy, type RecoverySettings } from '../model/recovery.js';
import { didYouMean } from '../model/suggest.js';
import { describeKey, keyText, type WorkflowKey } from '../model/workflow-key.js';
import type { Runnable } from '../storage/contract/storage.js';
import type { WorkflowDefinition } from './api/definition.js';
import type { StepProbe } from './execution/step-probe.js';

/** The workflows, classes and steps of one app, by the names that their rows in the database have. */
export class Registry {
  private readonly workflows = new Map<string, WorkflowDefinition>();
  private readonly classes = new Map<string, object>();
  private readonly steps = new Map<string, object>();

  /** `recovery` applies to workflows without recovery options of their own. */
  constructor(
    private readonly recovery: RecoverySettings = defaultRecovery,
    readonly stepProbe?: StepProbe,
  ) {}

  add(definition: WorkflowDefinition): void {
    const existing = this.get(definition);
    if (existing === definition) return;
    if (existing) {
      const name = describeKey(definition);
      throw new HoldfastError(
        'DUPLICATE_WORKFLOW',
        `Two different workflows are named "${name}". A stored workflow finds its code by this name. Rename one.`,
        { details: { name } },
      );
    }
    this.workflows.set(keyText(definition), definition);
  }

  /** Reserves the name of a class. A class reserves its name even before it has an instance. */
  addClass(name: string, definition: object): void {
    const existing = this.classes.get(name);
    if (existing !== undefined && existing !== definition) {
      throw new HoldfastError(
        'DUPLICATE_WORKFLOW',
        `Two different classes are named "${name}". A stored workflow finds its class by this name. Rename one ` +
          `with @className('...').`,
        { details: { name } },
      );
    }
    this.classes.set(name, definition);
  }

  get(key: WorkflowKey): WorkflowDefinition | undefined {
    return this.workflows.get(keyText(key));
  }

  require(key: WorkflowKey): WorkflowDefinition {
    const found = this.get(key);
    if (found) return found;
    const name = describeKey(key);
    const known = this.all().map(describeKey);
    throw new HoldfastError(
      'WORKFLOW_NOT_REGISTERED',
      `No workflow named "${name}" is registered.${didYouMean(name, known)} Give it to launch() or app.register().`,
      { details: { name } },
    );
  }

  /**
   * Refuses two different steps with one name. The history identifies steps only by name, so after a change of their
   * order a replay would give one step the result of the other, unnoticed.
   */
  checkStep(name: string, definition: object): void {
    const existing = this.steps.get(name);
    if (existing === definition) return;
    if (existing) {
      throw new HoldfastError(
        'STEP_NAME_CLASH',
        `Two different steps are named "${name}". Steps are matched to their history by name. Rename one.`,
        { details: { name } },
      );
    }
    this.steps.set(name, definition);
  }

  all(): WorkflowDefinition[] {
    return [...this.workflows.values()];
  }

  /** Returns the rules for recovering this workflow after its process died. */
  policyOf({ recovery }: WorkflowDefinition): RecoveryPolicy {
    return policyFor(recovery, this.recovery);
  }

  runnable(): Runnable[] {
    return this.all().map((definition) => ({
      name: definition.name,
      className: definition.className,
      configName: definition.configName,
      maxRecoveryAttempts: this.policyOf(definition).maxAttempts,
    }));
  }
}
