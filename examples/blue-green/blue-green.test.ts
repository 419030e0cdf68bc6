import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Interface } from 'node:readline';
import { expect, it } from 'vitest';
import { processesOf } from '../test-support/processes.js';

const { start, output } = processesOf(import.meta.url, (folder) => ({
  SHOP_DATABASE: `sqlite:${join(folder, 'shop.sqlite')}`,
}));

interface Worker {
  readonly child: ChildProcess;
  /** Resolves when the worker has printed the line. */
  says(line: string): Promise<void>;
}

async function worker(version: string): Promise<Worker> {
  const { child, lines } = start('worker.mjs', version);
  const said = listener(lines);
  await said('ready');
  return { child, says: said };
}

function listener(lines: Interface): Worker['says'] {
  const heard: string[] = [];
  lines.on('line', (line) => heard.push(line));
  return async (line) => {
    while (!heard.includes(line)) await once(lines, 'line');
  };
}

async function retire({ child }: Worker): Promise<void> {
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
}

it('runs new orders in the new version, and finishes old orders in any process of the old version', async () => {
  const blue = await worker('1');
  const piano = output('order.mjs', 'piano');
  await blue.says('charges piano');
  const cup = output('order.mjs', 'cup');
  await blue.says('charges cup');
  const spare = await worker('1');
  const green = await worker('2');

  const things = ['lamp', 'vase', 'clock', 'bowl'];
  const ordered = output('order.mjs', ...things);
  for (const thing of things) await green.says(`charges ${thing}`);
  expect(await output('versions.mjs')).toEqual([
    'version 2 (latest): 4 unfinished',
    'version 1: 2 unfinished',
    '0 cancelled',
  ]);

  // One step is running, and one order waits. The step ends in this process; the order continues to wait in the other.
  await output('warehouse.mjs', 'cup');
  await blue.says('ships cup');
  await retire(blue);
  expect(await cup).toEqual([`cup: shipped by version 1, process ${blue.child.pid}`]);
  await output('warehouse.mjs', 'piano');
  for (const thing of things) await output('warehouse.mjs', thing);
  expect(await piano).toEqual([`piano: shipped by version 1, process ${spare.child.pid}`]);
  const byGreen = (thing: string): string => `${thing}: wrapped and shipped by version 2, process ${green.child.pid}`;
  expect(await ordered).toEqual(things.map(byGreen));
  expect(await output('versions.mjs')).toEqual([
    'version 2 (latest): 0 unfinished',
    'version 1: 0 unfinished',
    '0 cancelled',
  ]);
});

it('keeps the work of the last process of a version until another process of that version starts', async () => {
  const blue = await worker('1');
  const piano = output('order.mjs', 'piano');
  await blue.says('charges piano');
  const green = await worker('2');
  await retire(blue);
  await output('warehouse.mjs', 'piano');
  expect(await output('versions.mjs')).toEqual([
    'version 2 (latest): 0 unfinished',
    'version 1: 1 unfinished',
    '0 cancelled',
  ]);
  const again = await worker('1');
  expect(await piano).toEqual([`piano: shipped by version 1, process ${again.child.pid}`]);
  await retire(again);
  await retire(green);
});
