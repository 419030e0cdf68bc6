/**
 * `npm run soak -- --minutes 20 --seed 7`: kills, stops, disconnects and replaces worker processes while clients and an
 * operator continue, on a Postgres server that crashes now and then. After a quiet time, the soak checks every promise
 * of docs/guarantees.md. The code is TypeScript in packages/holdfast/test/soak. Vitest's loader runs it, not its test
 * runner.
 */
import { createViteServer } from 'vitest/node';
import { root } from './run-command.mjs';

const loader = await createViteServer({
  root,
  configFile: false,
  logLevel: 'error',
  appType: 'custom',
  server: { middlewareMode: true, hmr: false, ws: false, watch: null },
});
try {
  const { startPostgres } = await loader.ssrLoadModule('/test-support/postgres-server.ts');
  const { main } = await loader.ssrLoadModule('/packages/holdfast/test/soak/main.ts');
  process.exitCode = await main(process.argv.slice(2), startPostgres);
} finally {
  await loader.close();
}
