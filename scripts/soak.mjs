/**
 * `npm run soak -- --minutes 20 --seed 7`: worker processes that are killed, stopped, cut off and replaced while clients
 * and an operator go on, on a Postgres server that crashes now and then; then quiet; then every promise is checked. The
 * code is TypeScript in packages/holdfast/test/soak; Vitest's loader runs it, its tests are not involved.
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
