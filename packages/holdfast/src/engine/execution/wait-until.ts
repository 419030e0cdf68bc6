import type { Execution, Wait } from './execution.js';

/** Resolves at the instant `until`. Rejects at once when the workflow is cancelled. */
export function waitUntil(
  execution: Execution,
  until: number,
  watchWhileSuspended?: Wait['watchWhileSuspended'],
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (!execution.running) return void execution.refuse().catch(reject);
    const timer = execution.engine.clock.at(until, () => {
      forget();
      resolve();
    });
    const forget = execution.onCancel({
      until,
      cancelled: (error) => {
        timer.cancel();
        reject(error);
      },
      abandoned: () => timer.cancel(),
      watchWhileSuspended,
    });
  });
}
