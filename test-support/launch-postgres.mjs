/**
 * Owns the Postgres servers of tests and benchmarks. Each server has its own folder and a free port, and ends with the
 * process that started it. `postgres-programs.mjs` finds the programs that a server runs.
 */
import { execFileSync, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { appendFile, chmod, chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPrograms } from './postgres-programs.mjs';

/**
 * @typedef {object} LaunchedPostgres
 * @property {(database: string) => string} url
 * @property {string} dataFolder
 * @property {() => Promise<void>} crash ends the server at once; the next start recovers committed data from its log
 * @property {() => Promise<void>} restart crashes the server if it runs, and starts it again
 * @property {() => Promise<void>} stop ends the server and removes its files
 */

/**
 * @param {{ flags?: readonly string[], parent?: string }} [options] `flags` of the server, e.g. `-c fsync=off`
 * @returns {Promise<LaunchedPostgres>}
 */
export async function launchPostgres({ flags = [], parent = tmpdir() } = {}) {
  const { initdb, postgres } = await findPrograms();
  const folder = await mkdtemp(join(parent, 'holdfast-pg-'));
  const dataFolder = join(folder, 'data');
  const port = await freePort();
  const server = new Server(postgres, ['-D', dataFolder, '-p', String(port), ...flags], await identity());
  endWithProcess(server, folder);
  try {
    // The user that Postgres runs as must be able to enter this folder.
    await chmod(folder, 0o755);
    await mkdir(dataFolder, { mode: 0o700 });
    const { uid, gid } = server.identity;
    if (uid !== undefined) await chown(dataFolder, uid, Number(gid));
    // No password check: it doubles the time of opening a connection, and a test run opens tens of thousands.
    await run(initdb, ['-D', dataFolder, '-U', 'postgres', '--auth=trust', '--no-sync'], server.identity);
    // The Postgres packages of distributions put sockets into a folder that not every user may write to.
    await appendFile(join(dataFolder, 'postgresql.conf'), "\nunix_socket_directories = ''\n");
    await server.start();
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
  return {
    url: (database) => `postgres://postgres:postgres@127.0.0.1:${port}/${database}`,
    dataFolder,
    // Immediate shutdown: the server waits for no session.
    crash: () => server.end('SIGQUIT'),
    restart: () => server.end('SIGQUIT').then(() => server.start()),
    stop: async () => {
      await server.end('SIGINT');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** @typedef {{ uid?: number, gid?: number }} Identity */

/** The process of one server, which may be started several times. */
class Server {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;

  /**
   * @param {string} program
   * @param {readonly string[]} args
   * @param {Identity} identity
   */
  constructor(program, args, identity) {
    this.program = program;
    this.args = args;
    this.identity = identity;
  }

  /** @returns {Promise<void>} resolves when the server accepts connections */
  start() {
    const child = spawn(this.program, this.args, {
      ...this.identity,
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, LC_MESSAGES: 'C' },
    });
    this.#child = child;
    let log = '';
    return new Promise((resolve, reject) => {
      child.stderr.on('data', (/** @type {Buffer} */ chunk) => {
        log = (log + chunk).slice(-5_000);
        if (log.includes('database system is ready to accept connections')) resolve();
      });
      child.once('error', reject);
      child.once('exit', () => reject(new Error(`Postgres did not start:\n${log}`)));
    });
  }

  /** @param {NodeJS.Signals} signal */
  async end(signal) {
    const child = this.#child;
    if (!this.signal(signal)) return;
    await new Promise((resolve) => child?.once('exit', resolve));
  }

  /**
   * @param {NodeJS.Signals} signal
   * @returns {boolean} whether the server was running
   */
  signal(signal) {
    const child = this.#child;
    return child !== undefined && child.exitCode === null && child.signalCode === null && child.kill(signal);
  }
}

/** @type {Map<Server, string>} */
const started = new Map();

/**
 * Ends the servers when this process ends: otherwise they would outlive a process that ends early. If other code also
 * listens to a signal, that code decides whether the process ends. Otherwise the signal ends the process as usual.
 *
 * @param {Server} server
 * @param {string} folder
 */
function endWithProcess(server, folder) {
  if (started.size === 0) {
    process.once('exit', endAll);
    for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
      process.once(signal, () => {
        if (process.listenerCount(signal) > 0) return;
        endAll();
        process.kill(process.pid, signal);
      });
    }
  }
  started.set(server, folder);
}

function endAll() {
  for (const [server, folder] of started) {
    server.signal('SIGQUIT');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Postgres refuses to run as root. Root therefore runs it as the user `postgres`, and creates this user if it is
 * missing.
 *
 * @returns {Promise<Identity>}
 */
async function identity() {
  if (process.getuid?.() !== 0) return {};
  const id = (/** @type {string} */ kind) => Number(execFileSync('id', [kind, 'postgres'], { stdio: 'pipe' }));
  try {
    return { uid: id('-u'), gid: id('-g') };
  } catch {
    await run('groupadd', ['-f', 'postgres'], {});
    await run('useradd', ['-g', 'postgres', 'postgres'], {});
    return { uid: id('-u'), gid: id('-g') };
  }
}

/**
 * @param {string} program
 * @param {readonly string[]} args
 * @param {Identity} as
 * @returns {Promise<void>}
 */
function run(program, args, as) {
  const child = spawn(program, args, { ...as, stdio: ['ignore', 'pipe', 'pipe'], cwd: '/' });
  let log = '';
  for (const output of [child.stdout, child.stderr]) output.on('data', (chunk) => (log += chunk));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`${program} failed:\n${log}`))));
  });
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}
