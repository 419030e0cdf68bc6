import { expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import { InboxCapacity } from '../engine/wait/inbox-capacity.js';
import { admitted, rulesOf } from './admission.js';

it('gives back the room that it has taken when a look into another inbox fails', async () => {
  let isFailing = true;
  const inboxState = async ({ workflowId }: { workflowId: string }) => {
    if (isFailing && workflowId === 'second') throw new Error('permission denied');
    return { waiting: 0, bytes: 0 };
  };
  const engine = {
    messageWriter: { room: new InboxCapacity() },
    storage: { messages: { inboxState, stored: async () => new Set() } },
    untilAnswered: (_: string, statement: () => Promise<unknown>) => statement(),
  } as unknown as Engine;
  const rules = rulesOf('Topic "news"', { maxWaiting: 5 });
  const to = (destination: string) => ({
    ...{ messageId: destination, destination, topic: 'news', value: '1', serialization: null, sentAt: 0 },
  });
  const send = async () => admitted(engine, rules, [to('first'), to('second')]);
  for (let tries = 0; tries < 10; tries++) await expect(send()).rejects.toThrow('permission denied');
  isFailing = false;
  expect(await send()).toHaveLength(2);
});
