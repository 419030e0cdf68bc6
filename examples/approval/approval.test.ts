import { once } from 'node:events';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { processesOf } from '../test-support/processes.js';

const { start, startReady } = processesOf(import.meta.url, (folder) => ({
  EXPENSES_DATABASE: `sqlite:${join(folder, 'expenses.sqlite')}`,
}));

it('receives a decision that was sent while the server was dead; another program reads the diary', async () => {
  const server = await startReady('server.mjs');
  const approval = start('approve.mjs', 'yes');
  const output: string[] = [];
  approval.lines.on('line', (line) => output.push(line));
  expect(await once(approval.lines, 'line')).toEqual(['waits for a decision']);
  server.kill('SIGKILL');
  await once(server, 'exit');
  start('server.mjs');
  await once(approval.child, 'exit');
  const story = ['  Ada asks for 4200 cents', '  approved by Grace', '  paid'];
  expect(output).toEqual(['waits for a decision', ...story, 'paid']);
});
