import type { Engine } from '../engine/engine.js';
import type { Free } from '../storage/contract/takeovers.js';

/**
 * Executors with unfinished work of which nothing tells whether they live: they are not in the table of executors, and their
 * ID names no process of this host. DBOS is one (`local`), and so is an older process. Their work is left alone, because a
 * live one would run it as well; but an operator must hear of it.
 */
export async function warnOfUnknownExecutorsWork(
  engine: Engine,
  free: Free,
  executorIds: readonly string[],
): Promise<void> {
  if (executorIds.length === 0) return;
  const left = await engine.storage.takeovers.left(free);
  const count = left.reduce((sum, each) => sum + each.count, 0);
  if (count === 0) return;
  const names = [...new Set(left.map(({ name }) => name))].slice(0, maxNamed);
  const ids = executorIds.slice(0, maxNamed).map((id) => `'${id}'`);
  const [what, belongs] = count === 1 ? ['workflow', 'belongs'] : ['workflows', 'belong'];
  engine.logger.warn(
    `${count} unfinished ${what} (${names.join(', ')}) of this version ${belongs} to executors that are not in the table ` +
      `of executors: ${ids.join(', ')}. This process leaves them alone, because nothing tells whether those executors live. If they ` +
      `are dead (DBOS, or an older process), app.recovery.recover([${ids.join(', ')}]) continues their work.`,
  );
}

/** How many executors, and names of workflows, the log tells of. */
const maxNamed = 10;
