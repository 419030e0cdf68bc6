/** Prints the folder of the Postgres server that is installed on this machine; fails, and says so, where there is none. */
import { systemFolder } from '../test-support/postgres-programs.mjs';

const folder = systemFolder();
if (folder === undefined) {
  console.error(
    'No Postgres server is installed on this machine (neither on PATH nor in /usr/lib/postgresql): the smoke test on a ' +
      'stock server, with JIT, is left out.',
  );
  process.exitCode = 1;
} else {
  console.log(folder);
}
