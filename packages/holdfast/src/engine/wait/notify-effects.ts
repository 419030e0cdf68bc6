import type { Effect } from '../../storage/contract/messaging.js';
import type { Execution } from '../execution/execution.js';
import { watchKey } from './watches.js';

/** Announces the committed effects of an operation to all code that waits for them, in this and other processes. */
export function notifyEffects({ engine, workflowId }: Execution, effects: readonly Effect[]): void {
  const { news } = engine;
  for (const effect of effects) {
    if (effect.kind === 'message') news.announce(`message:${watchKey(effect.destination, effect.topic)}`);
    else if (effect.kind !== 'consume') news.announce(`${effect.kind}:${watchKey(workflowId, effect.key)}`);
  }
}
