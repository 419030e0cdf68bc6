/** Owns the parent's side of the child processes. Each child runs one system and answers requests over IPC. */
import { fork } from 'node:child_process';

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();

/** Kills all child processes, for Ctrl-C. */
export function stopContestants() {
  for (const child of running) child.kill('SIGKILL');
}

/** How much longer than planned a request may take before its system counts as hanging. */
const patienceMs = 600_000;

/**
 * Starts the process of one system. The process has not opened the system yet.
 *
 * @param {Pick<import('./catalogue.mjs').System, 'build'>} [system] its child processes measure the same build
 */
export function startContestant({ build } = {}) {
  // The output of libraries goes to stderr: stdout contains only the tables.
  const child = fork(new URL('./child.mjs', import.meta.url), {
    stdio: ['ignore', 2, 2, 'ipc'],
    // JSON has no infinity, which is the duration of something that never happens.
    serialization: 'advanced',
    // Memory is measured after a garbage collection.
    execArgv: ['--no-deprecation', '--expose-gc'],
    ...(build && { env: { ...process.env, HOLDFAST_BUILD: build() } }),
  });
  running.add(child);
  const exited = new Promise((resolve) => child.once('exit', resolve));
  let lastId = 0;

  /**
   * @param {Record<string, unknown>} request
   * @returns {Promise<any>}
   */
  function ask(request) {
    const id = ++lastId;
    return new Promise((resolve, reject) => {
      const settle = (/** @type {() => void} */ how) => {
        clearTimeout(timer);
        child.off('message', onMessage);
        child.off('exit', onExit);
        how();
      };
      const timer = setTimeout(
        () => settle(() => reject(new Error(`No answer to "${request.do}" within ${patienceMs / 60_000} minutes.`))),
        patienceMs + Number(request.seconds ?? 0) * 1000,
      );
      const onExit = (/** @type {number | null} */ code, /** @type {string | null} */ signal) =>
        settle(() => reject(new Error(`Its process ended (${signal ?? `exit code ${code}`}).`)));
      const onMessage = (/** @type {any} */ answer) => {
        if (answer.id !== id) return;
        settle(() => (answer.error === undefined ? resolve(answer.result) : reject(new Error(answer.error))));
      };
      child.on('message', onMessage);
      child.on('exit', onExit);
      child.send({ id, ...request });
    });
  }

  return {
    ask,
    /** Calls the listener for each message of the process that answers no request. @param {() => void} listener */
    onNote(listener) {
      child.on('message', (/** @type {any} */ message) => message.note !== undefined && listener());
    },
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
      await exited;
      running.delete(child);
    },
  };
}
