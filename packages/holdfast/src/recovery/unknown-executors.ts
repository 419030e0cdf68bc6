import type { Engine } from '../engine/engine.js';
import type { FreeWork } from '../storage/contract/takeovers.js';

/**
 * Warns about unfinished work of unknown executors: they have no row in the table of executors, and their ID names no
 * process of this host. Examples are DBOS (`local`) and processes of an older Holdfast. Their work is not taken over,
 * because such an executor may be alive and run the work as well. Therefore an operator must decide.
 */
export async function warnOfUnknownExecutorsWork(
  engine: Engine,
  free: FreeWork,
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
    `${count} unfinished ${what} (${names.join(', ')}) of this version ${belongs} to executors that are not in the ` +
      `table of executors: ${ids.join(', ')}. This process does not take them over, because those executors may be ` +
      `alive. If they are dead (DBOS, or an older process), app.recovery.recover([${ids.join(', ')}]) continues ` +
      'their work.',
  );
}

/** Maximum number of executors, and of workflow names, in the warning. */
const maxNamed = 10;
