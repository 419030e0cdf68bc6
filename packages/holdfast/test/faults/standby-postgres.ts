import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { appendFile, chmod, chown, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { openProxy } from './proxy.js';

export interface StandbyServer {
  /** URL of the server's maintenance database. */
  readonly url: string;
  /** Promotes the standby with everything that has reached it. Resolves when it accepts writes. */
  promote(): Promise<void>;
  stop(): Promise<void>;
}

/** The name of the standby in the primary's `synchronous_standby_names`. */
export const standbyName = 'heir';

/**
 * Starts a second server that follows the server of this URL. It is made from a copy of the files, taken between the
 * two calls of a base backup, because the package with the server has no tool for that. Resolves when the standby has
 * caught up.
 */
export async function startStandby(primaryUrl: string, flags: readonly string[]): Promise<StandbyServer> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-standby-'));
  await chmod(folder, 0o755);
  const dataFolder = join(folder, 'data');
  const primary = new pg.Client(primaryUrl);
  await primary.connect();
  try {
    const { source, bin } = await placesOf(primary);
    const { begin, end } = await backupCalls(primary);
    await primary.query(`select ${begin}`);
    // The copy keeps the owner of the files, because Postgres refuses files of another user.
    await promisify(execFile)('cp', ['-a', source, dataFolder]);
    const label = (await primary.query(`select labelfile from ${end}`)).rows[0].labelfile as string;
    await writeOwned(dataFolder, 'backup_label', label);
    await rm(join(dataFolder, 'postmaster.pid'), { force: true });
    const { hostname: host, port, username: user, password } = new URL(primaryUrl);
    const info = `host=${host} port=${port} user=${user} password=${password} application_name=${standbyName}`;
    // A command-line flag could not be changed while the server runs.
    await appendFile(join(dataFolder, 'postgresql.auto.conf'), `primary_conninfo = '${info}'\n`);
    const server = await startReadOnly(bin, dataFolder, flags);
    await untilFollowed(primary);
    return { ...server, stop: () => server.stop().then(() => rm(folder, { recursive: true, force: true })) };
  } finally {
    await primary.end();
  }
}

/** The two calls of a non-exclusive backup. Before Postgres 15 they had other names. */
async function backupCalls(primary: pg.Client): Promise<{ begin: string; end: string }> {
  const { rows } = await primary.query("select current_setting('server_version_num')::int as version");
  if (rows[0].version >= 150_000) return { begin: "pg_backup_start('standby', true)", end: 'pg_backup_stop(false)' };
  return { begin: "pg_start_backup('standby', true, false)", end: 'pg_stop_backup(false)' };
}

/** Returns where a running server has its files and its programs. */
export async function placesOf(server: pg.Client): Promise<{ source: string; bin: string }> {
  const places = `select current_setting('data_directory') as source, (select setting from pg_config where name = 'BINDIR') as bin`;
  return (await server.query(places)).rows[0];
}

/**
 * Starts a server over these files that takes no writes until it is promoted. Without a primary to follow, its data
 * stay unchanged.
 */
export async function startReadOnly(bin: string, dataFolder: string, flags: readonly string[]): Promise<StandbyServer> {
  await writeOwned(dataFolder, 'standby.signal', '');
  const port = await freePort();
  const { uid, gid } = await stat(dataFolder);
  const identity = process.getuid?.() === 0 ? { uid, gid } : {};
  const child = spawn(join(bin, 'postgres'), ['-D', dataFolder, '-p', port, ...flags], {
    ...identity,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, LC_MESSAGES: 'C' },
  });
  await untilAnswering(child);
  const url = `postgres://postgres:postgres@127.0.0.1:${port}/postgres`;
  const promote = async (): Promise<void> => {
    const admin = new pg.Client(url);
    await admin.connect();
    await admin.query('select pg_promote(true, 60)');
    await admin.end();
  };
  return { url, promote, stop: () => ended(child, 'SIGQUIT') };
}

/** Returns a port that a proxy used a moment ago. */
async function freePort(): Promise<string> {
  const probe = await openProxy('postgres://127.0.0.1/');
  const { port } = new URL(probe.url);
  await probe.close();
  return port;
}

/** Writes a file owned by the server's user, who may not be the user that runs the tests. */
async function writeOwned(dataFolder: string, name: string, text: string): Promise<void> {
  const { uid, gid } = await stat(dataFolder);
  await writeFile(join(dataFolder, name), text);
  await chown(join(dataFolder, name), uid, gid);
}

function untilAnswering(child: ChildProcess): Promise<void> {
  let log = '';
  return new Promise((resolve, reject) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      log = (log + chunk).slice(-5_000);
      if (log.includes('ready to accept read-only connections')) resolve();
    });
    child.once('exit', () => reject(new Error(`The standby did not start:\n${log}`)));
  });
}

async function untilFollowed(primary: pg.Client): Promise<void> {
  const following = 'select 1 from pg_stat_replication where state = $1 and application_name = $2';
  while ((await primary.query(following, ['streaming', standbyName])).rows.length === 0) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  await gone;
}
