import { HoldfastError } from '../model/errors.js';
import { didYouMean } from '../model/suggest.js';
import type { Runnable } from '../storage/storage.js';
import type { WorkflowDefinition } from './definition.js';

/** The workflows and steps that one app knows by name. */
export class Registry {
  private readonly workflows = new Map<string, WorkflowDefinition>();
  private readonly steps = new Map<string, object>();

  add(definition: WorkflowDefinition): void {
    const existing = this.workflows.get(definition.name);
    if (existing === definition) return;
    if (existing) {
      throw new HoldfastError(
        'DUPLICATE_WORKFLOW',
        `Two different workflows are named "${definition.name}". A stored workflow finds its code by this name: rename one.`,
        { details: { name: definition.name } },
      );
    }
    this.workflows.set(definition.name, definition);
  }

  get(name: string): WorkflowDefinition | undefined {
    return this.workflows.get(name);
  }

  has(definition: WorkflowDefinition): boolean {
    return this.workflows.get(definition.name) === definition;
  }

  require(name: string): WorkflowDefinition {
    const found = this.workflows.get(name);
    if (found) return found;
    const known = [...this.workflows.keys()];
    throw new HoldfastError(
      'WORKFLOW_NOT_REGISTERED',
      `No workflow named "${name}" is registered.${didYouMean(name, known)} Give it to launch() or app.register().`,
      { details: { name } },
    );
  }

  /**
   * Two defined steps of one name are told apart by nothing on record: after a change of order a replay would hand
   * one the other's result without noticing.
   */
  checkStep(name: string, definition: object): void {
    const existing = this.steps.get(name);
    if (existing === definition) return;
    if (existing) {
      throw new HoldfastError(
        'STEP_NAME_CLASH',
        `Two different steps are named "${name}". Steps are matched to their record by name: rename one.`,
        { details: { name } },
      );
    }
    this.steps.set(name, definition);
  }

  all(): WorkflowDefinition[] {
    return [...this.workflows.values()];
  }

  runnable(): Runnable[] {
    return this.all().map(({ name, maxRecoveryAttempts }) => ({ name, maxRecoveryAttempts }));
  }
}
