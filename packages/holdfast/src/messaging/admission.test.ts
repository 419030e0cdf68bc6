import { expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import { InboxCapacity } from '../engine/wait/inbox-capacity.js';
import { admit, inboxRulesOf } from './admission.js';

it('releases the capacity it has reserved if the query of another inbox fails', async () => {
  let isFailing = true;
  const inboxState = async ({ workflowId }: { workflowId: string }) => {
    if (isFailing && workflowId === 'second') throw new Error('permission denied');
    return { waiting: 0, bytes: 0 };
  };
  const engine = {
    messageWriter: { capacity: new InboxCapacity() },
    storage: { messages: { inboxState, stored: async () => new Set() } },
    untilAnswered: (_: string, statement: () => Promise<unknown>) => statement(),
  } as unknown as Engine;
  const rules = inboxRulesOf('Topic "news"', { maxWaiting: 5 });
  const messageTo = (destination: string) => ({
    ...{ messageId: destination, destination, topic: 'news', value: '1', serialization: null, sentAt: 0 },
  });
  const send = async () => admit(engine, rules, [messageTo('first'), messageTo('second')]);
  for (let tries = 0; tries < 10; tries++) await expect(send()).rejects.toThrow('permission denied');
  isFailing = false;
  expect(await send()).toHaveLength(2);
});
