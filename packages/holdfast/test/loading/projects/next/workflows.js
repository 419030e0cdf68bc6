import { run, topic, workflow } from 'holdfast';

export const approval = topic('approval');
export const checkout = workflow('checkout', async (order) => {
  const by = await approval.receive({ timeout: '1m' });
  return `${order} approved by ${by}, charged ${await run('charge', () => 'once')}`;
});
