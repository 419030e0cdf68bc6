import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { soakViolations } from './checks.js';
import { FaultPlan } from './faults.js';
import { Operator } from './operator.js';
import { exitCodeOf, type Summary, say, tableOf, verdictOf } from './report.js';
import { Restore, withoutUndone } from './restore.js';
import { openRig, peaksOf, type Rig } from './rig.js';
import { Traffic } from './traffic.js';

/**
 * Every workflow must have ended this long after the last fault. The time depends on the number of workers on the
 * machine.
 */
const quietMs = (workers: number): number => Math.max(60_000, workers * 10_000);

/** The number of workflows that run at a time. */
const width = 40;

const lookEveryMs = 500;

interface PostgresServer {
  readonly url: string;
  /** Stops the server at once, as a crash would, and starts it again. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export type StartPostgres = (flags: readonly string[]) => Promise<PostgresServer>;

/**
 * `npm run soak -- --minutes 20 --seed 7`. `--restore` also restores an older backup in the middle of the run.
 * `--workers 12 --commit-ms 5` runs a fleet whose commits take as long as on a cloud disk. Returns the exit code: 0
 * good, 1 violations, 2 void.
 */
export async function main(argv: readonly string[], startPostgres: StartPostgres): Promise<number> {
  const { minutes, seed, keep, workers, commitMs, restores } = parse(argv);
  say(`soak: ${minutes} min, ${workers} workers, --seed ${seed}`);
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-soak-'));
  const slow = commitMs > 0 && { fsync: 'on', commit_delay: commitMs * 1_000, commit_siblings: 0 };
  const max_connections = Math.max(300, workers * 40);
  const settings = { fsync: 'off', max_connections, shared_buffers: '128MB', ...slow };
  const server = await startPostgres(Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]));
  let code = 1;
  try {
    const rig = await openRig(server.url, folder, workers);
    const summary = await soak(rig, { restart: () => server.restart(), seed, runMs: minutes * 60_000, restores });
    for (const line of [...tableOf(summary), verdictOf(summary)]) say(line);
    code = exitCodeOf(summary);
  } finally {
    await server.stop();
    if (code === 0 && !keep) rmSync(folder, { recursive: true });
    else say(`The ledger and the log of the workers are in ${folder}`);
  }
  say(`--seed ${seed}`);
  return code;
}

function parse(argv: readonly string[]) {
  const options = {
    minutes: { type: 'string', default: '20' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    keep: { type: 'boolean', default: false },
    workers: { type: 'string', default: '5' },
    'commit-ms': { type: 'string', default: '0' },
    restore: { type: 'boolean', default: false },
  } as const;
  const {
    minutes,
    seed,
    keep,
    workers,
    'commit-ms': commitMs,
    restore,
  } = parseArgs({ args: [...argv], options }).values;
  if (!(Number(minutes) > 0)) throw new Error(`--minutes must be a number above 0, and it is "${minutes}".`);
  const numbers = { minutes: Number(minutes), workers: Number(workers), commitMs: Number(commitMs) };
  return { ...numbers, seed, keep, restores: restore };
}

interface Plan {
  readonly restart: () => Promise<void>;
  readonly seed: string;
  readonly runMs: number;
  readonly restores: boolean;
}

async function soak(rig: Rig, { restart, seed, runMs, restores }: Plan): Promise<Summary> {
  const { fleet, witness, ledger, clients, operatorClient } = rig;
  let [endAt, looking] = [Number.POSITIVE_INFINITY, true];
  const isOver = (): boolean => performance.now() > endAt;
  const traffic = new Traffic(clients, ledger, seed);
  const restore = restores && { restore: restoreOf(rig, traffic) };
  const faults = new FaultPlan({ ...rig, restart, seed, runMs, isOver, ...restore });
  const operator = new Operator(operatorClient, traffic, ledger, seed);
  try {
    await fleet.start();
    const begunAt = performance.now();
    endAt = begunAt + runMs;
    const looks = repeatedly(
      lookEveryMs,
      () => looking,
      () => witness.look(),
    );
    const ended = Promise.all([faults.run(), traffic.run(width, isOver), operator.run(isOver)]);
    const isQuiet = await within(
      runMs + quietMs(fleet.size),
      ended.then(() => allEnded(rig)),
    );
    const seconds = (performance.now() - begunAt) / 1000;
    looking = false;
    await looks;
    if (isQuiet) await fleet.stop();
    const evidence = withoutUndone(await witness.evidence(await peaksOf(rig.database)));
    const found = soakViolations(evidence);
    const noticed = linesOf(rig.logPath, /gone back in time|lost steps that were on record/);
    return { seed, seconds, faults: faults.landed(), evidence, operator, found, noticed };
  } finally {
    looking = false;
    fleet.killAll();
    await within(5_000, rig.close());
  }
}

function restoreOf({ database, ledger, witness }: Rig, traffic: Traffic) {
  const restore = new Restore(database, ledger);
  const putBack = async (): Promise<void> => {
    traffic.willBeRestored();
    const { families } = await restore.putBack();
    witness.forget(new Set(families));
    await traffic.wasRestored();
  };
  return { save: () => restore.save(), putBack };
}

function linesOf(path: string, pattern: RegExp): number {
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return text.split('\n').filter((line) => pattern.test(line)).length;
}

async function repeatedly(everyMs: number, goesOn: () => boolean, act: () => Promise<void>): Promise<void> {
  while (goesOn()) {
    await act();
    await delay(everyMs);
  }
}

/** Waits for every workflow, because no caller waits for detached children. */
async function allEnded({ witness }: Rig): Promise<void> {
  while ((await witness.unfinished()) > 0) await delay(100);
}

/** Resolves with true if the work is done in time. */
async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const late = new AbortController();
  const timer = delay(ms, false, { signal: late.signal }).catch(() => false);
  const done = await Promise.race([work.then(() => true), timer]);
  late.abort();
  return done;
}
