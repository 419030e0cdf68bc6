import { join } from 'node:path';
import { build } from 'esbuild';
import { expect, it } from 'vitest';
import { describeBackends } from '../support/backends.js';
import { consumer, printed } from './consumer.js';

describeBackends('a program bundled into one file by esbuild', (backend) => {
  // A bundle cannot contain native code.
  const external = ['better-sqlite3', 'pg-native'];

  it('runs as an ES module, and is bundled without a warning', async () => {
    const project = consumer(['holdfast', 'better-sqlite3']);
    const outfile = join(project.folder, 'out.mjs');
    // The Postgres driver is CommonJS, and requires modules of Node.
    const js = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
    const { warnings } = await build({
      ...{ entryPoints: [project.add('bundled.mjs')], outfile, external, banner: { js }, logLevel: 'silent' },
      ...{ bundle: true, platform: 'node', format: 'esm', minify: true },
    });
    expect(warnings).toEqual([]);
    expect(printed(project.run([outfile], { DATABASE: await backend.newDatabase() }))).toBe('Hello Ada again');
  });

  it('runs as CommonJS', async () => {
    const project = consumer(['holdfast', 'better-sqlite3']);
    const outfile = join(project.folder, 'out.cjs');
    const contents = `(async () => { ${programOf()} })()`;
    const { warnings } = await build({
      ...{ stdin: { contents, resolveDir: project.folder }, outfile, external, logLevel: 'silent' },
      ...{ bundle: true, platform: 'node', format: 'cjs' },
    });
    expect(warnings).toEqual([]);
    expect(printed(project.run([outfile], { DATABASE: await backend.newDatabase() }))).toBe('Hello Ada again');
  });
});

/** The same program without top-level `await`, which CommonJS does not have. */
function programOf(): string {
  return `
    const { launch, run, topic, workflow } = require('holdfast');
    const greet = workflow('greet', async () => \`Hello \${await topic('name').receive()} \${await run('ask', () => 'again')}\`);
    const app = await launch({ name: 'bundled', database: process.env.DATABASE, workflows: [greet] });
    const handle = await greet.start();
    await topic('name').send(handle.id, 'Ada');
    console.log(JSON.stringify(await handle.result()));
    await app.shutdown();`;
}
