/**
 * Prints the folder of the Postgres server that is installed on this machine. Fails with a message if there is none.
 */
import { systemFolder } from '../test-support/postgres-programs.mjs';

const folder = systemFolder();
if (folder === undefined) {
  console.error(
    'No Postgres server is installed on this machine (neither on PATH nor in /usr/lib/postgresql). The smoke test on ' +
      'a stock server, with JIT, is skipped.',
  );
  process.exitCode = 1;
} else {
  console.log(folder);
}
