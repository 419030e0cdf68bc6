import { misplacedOption } from '../../model/options.js';
import { callerTransaction, type Purpose } from '../../storage/caller/transaction.js';
import type { TransactionStorage } from '../../storage/contract/storage.js';
import { refuseInWorkflow } from '../api/context.js';
import type { StartOptions } from '../api/start-options.js';
import type { Engine } from '../engine.js';
import { asCall } from '../wait/work-signals.js';
import { explainEnqueued } from '../write/enqueue-writer.js';
import { enqueuedRow, idOf, newsOf } from './enqueue.js';
import type { Startable } from './workflow-row.js';

/**
 * Storage inside a transaction of the caller's own, or a typed error before anything is done in it. No statement of ours
 * fails in it then, unless the database does: the caller can catch what is refused and go on.
 */
export async function storageIn(
  engine: Engine,
  what: string,
  tx: unknown,
  purpose: Purpose,
): Promise<TransactionStorage> {
  refuseInWorkflow(what, 'Call it in a transaction() or a step.');
  const within = engine.storage.inTransaction(callerTransaction(what, tx));
  if (!(await within.isOpen())) {
    throw misplacedOption(
      what,
      'tx',
      "is a client on which no transaction has begun: what is done through it would commit by itself. Query 'begin' first",
    );
  }
  if (await within.reaches(purpose)) return within;
  throw misplacedOption(
    what,
    'tx',
    `is a transaction of another database, or of a role without the rights that it takes to ${purpose}. Both must be in ` +
      'one database to commit together',
  );
}

/** Puts a workflow on a queue in a transaction of the caller's. Resolves with its ID, or that of the one it duplicates. */
export async function enqueueIn(
  engine: Engine,
  tx: unknown,
  workflow: Startable,
  options: StartOptions,
  args: readonly unknown[],
): Promise<string> {
  const what = `startIn() of "${workflow.name}"`;
  const row = await enqueuedRow(engine, workflow, options, args, null);
  const within = await storageIn(engine, what, tx, 'start a workflow');
  for (;;) {
    const created = await within.workflows.enqueueMany([row]);
    const [enqueued] = await explainEnqueued(within, [row], created);
    // Undefined: the deduplication ID was held, and is free again.
    if (!enqueued) continue;
    const id = idOf(engine, row, options, enqueued);
    if (created.size > 0) await within.announce([asCall(newsOf(row))]);
    return id;
  }
}
