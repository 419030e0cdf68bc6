import { wrongOption } from '../../model/options.js';
import type { TransactionStorage } from '../../storage/contract/storage.js';
import { callerTransaction, type Purpose } from '../../storage/open-datasource.js';
import { refuseInWorkflow } from '../api/context.js';
import type { StartOptions } from '../api/start-options.js';
import type { Engine } from '../engine.js';
import { asCall } from '../wait/work-signals.js';
import { explainEnqueued } from '../write/enqueue-writer.js';
import { enqueuedId, enqueuedRow, queueTopic } from './enqueue.js';
import type { Startable } from './workflow-row.js';

/**
 * Returns storage inside the caller's own transaction, or throws a typed error before it changes anything there. After
 * that, no statement of ours fails in the transaction unless the database fails. The caller can therefore catch a
 * refusal and continue the transaction.
 */
export async function transactionStorage(
  engine: Engine,
  what: string,
  tx: unknown,
  purpose: Purpose,
): Promise<TransactionStorage> {
  refuseInWorkflow(what, 'Call it in a transaction() or a step.');
  const storage = engine.storage.inTransaction(callerTransaction(what, tx));
  if (!(await storage.isOpen())) {
    throw wrongOption(
      what,
      'tx',
      "is a client without an open transaction: each statement on it would commit by itself. Query 'begin' first",
    );
  }
  if (await storage.reaches(purpose)) return storage;
  throw wrongOption(
    what,
    'tx',
    `is a transaction on another database, or its role lacks the rights to ${purpose}. Your data and the tables of ` +
      'Holdfast must be in one database to commit together',
  );
}

/**
 * Enqueues a workflow in the caller's transaction. Resolves with its ID, or with the ID of the workflow that it
 * duplicates.
 */
export async function enqueueIn(
  engine: Engine,
  tx: unknown,
  workflow: Startable,
  options: StartOptions,
  args: readonly unknown[],
): Promise<string> {
  const what = `startIn() of "${workflow.name}"`;
  const row = await enqueuedRow(engine, workflow, options, args, null);
  const storage = await transactionStorage(engine, what, tx, 'start a workflow');
  for (;;) {
    const created = await storage.queues.enqueueMany([row]);
    const [enqueued] = await explainEnqueued(storage, [row], created);
    // Undefined: another workflow had the deduplication ID at the insert, and no longer has it. The insert is repeated.
    if (!enqueued) continue;
    const id = enqueuedId(engine, row, options, enqueued);
    if (created.size > 0) await storage.announce([asCall(queueTopic(row))]);
    return id;
  }
}
