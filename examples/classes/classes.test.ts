import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';

const here = fileURLToPath(new URL('.', import.meta.url));
const tsc = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));
let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-example-'));
  execFileSync(process.execPath, [tsc, '-p', here], { stdio: 'pipe' });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function start(shippingMs: number) {
  const env = {
    ...process.env,
    SHOPS_DATABASE: `sqlite:${join(folder, 'shops.sqlite')}`,
    SHIPPING_MS: `${shippingMs}`,
  };
  const script = join(here, 'dist', 'main.mjs');
  const child = spawn(process.execPath, [script], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  return { child, lines: createInterface({ input: child.stdout }) };
}

it('continues killed orders in their own shop, without charging them again', async () => {
  const first = start(60_000);
  const seen: string[] = [];
  for await (const line of first.lines) {
    seen.push(line);
    if (seen.filter((each) => each.includes('shipping')).length === 2) break;
  }
  first.child.kill('SIGKILL');
  await once(first.child, 'exit');
  expect(seen.sort().slice(0, 2)).toEqual(['ch: charging for order-2', 'ch: shipping order-2']);

  const second = start(1);
  const output = await collect(second.lines);
  expect(output.filter((line) => line.includes('charging'))).toEqual(['de: charging for order-1 again']);
  expect(output.filter((line) => !/charging|shipping/.test(line))).toEqual([
    '119.00 EUR, shipped in de',
    '108.10 CHF, shipped in ch',
    'report on de and ch',
    'eve may not do that',
    'replaced: 0.00 EUR, shipped in de',
    'order-1 Shop de',
    'order-2 Shop ch',
  ]);
});

async function collect(lines: AsyncIterable<string>): Promise<string[]> {
  const found: string[] = [];
  for await (const line of lines) found.push(line);
  return found;
}
