/** Starts worker.mjs as a separate process and reads its reports: one JSON object per line. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const worker = fileURLToPath(new URL('worker.mjs', import.meta.url));

/** A process that runs longer than this has failed, and is killed. */
const patienceMs = 60_000;

export function startShop({ database, effects }, extra) {
  const env = { ...process.env, SHOP_DATABASE: database, EFFECTS_FILE: effects, ...extra };
  const child = spawn(process.execPath, [worker], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit');
  let complaints = '';
  child.stderr.on('data', (chunk) => {
    complaints += chunk;
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs);
  child.on('exit', () => clearTimeout(timer));
  return {
    pid: child.pid,
    events: eventsOf(child),
    ended,
    complaints: () => complaints,
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

async function* eventsOf(child) {
  for await (const line of createInterface({ input: child.stdout })) yield JSON.parse(line);
}
