import type { StepRecord, WorkflowRecord } from '../storage/storage.js';
import type { Engine } from './engine.js';

/**
 * Runs workflows that this process has claimed. Their histories are read in one statement, after the claim: by then
 * every checkpoint of a former owner is either committed, and seen, or fenced.
 */
export async function runClaimed(engine: Engine, claimed: readonly WorkflowRecord[]): Promise<void> {
  const mine = claimed.filter((record) => record.status === 'PENDING');
  for (const record of claimed) if (record.status === 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') reportDead(engine, record);
  if (mine.length === 0) return;
  const ids = mine.map((record) => record.workflowId);
  // Claimed work belongs to nobody else: giving up here would strand it.
  const steps = await engine.untilAnswered('Reading the history of claimed workflows', () =>
    engine.storage.steps.history(ids),
  );
  const histories = groupByWorkflow(steps ?? []);
  for (const record of mine) {
    const definition = engine.registry.require(record.name);
    const { workflowId, name, createdAt, deadlineAt, inputs, serialization, user, roles, attributes } = record;
    engine.run({
      workflowId,
      name,
      owner: record.owner ?? '',
      attempt: record.attempts,
      createdAt,
      deadlineAt,
      inputs,
      serialization,
      user,
      roles,
      attributes,
      definition,
      recorded: histories.get(workflowId) ?? [],
    });
  }
}

function reportDead(engine: Engine, record: WorkflowRecord): void {
  engine.logger.error(
    `Workflow "${record.workflowId}" (${record.name}) was given up after ${record.attempts - 1} attempts: ` +
      'MAX_RECOVERY_ATTEMPTS_EXCEEDED. Find out why it does not survive, then resume it.',
  );
  engine.outcomes.settle(record);
}

function groupByWorkflow(steps: readonly StepRecord[]): Map<string, StepRecord[]> {
  const grouped = new Map<string, StepRecord[]>();
  for (const step of steps) {
    const own = grouped.get(step.workflowId);
    if (own) own.push(step);
    else grouped.set(step.workflowId, [step]);
  }
  return grouped;
}
