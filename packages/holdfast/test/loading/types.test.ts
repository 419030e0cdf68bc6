import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { consumer, root } from './consumer.js';

const program = `
import { launch, transaction, workflow, type Workflow } from 'holdfast';
import { ConfiguredInstance } from 'holdfast/classes';
import { type NodeSqliteDatabase, sqliteDatasource } from 'holdfast/sqlite';
import { testApp } from 'holdfast/testing';

const note = transaction(sqliteDatasource({} as NodeSqliteDatabase), 'note', (db) => db.exec('select 1'));
class Shop extends ConfiguredInstance {}
const double: Workflow<[n: number], number> = workflow('double', async (n: number) => n * 2);

export async function main(): Promise<number> {
  await launch({ name: 'types', workflows: [double, Shop] });
  await testApp();
  // @ts-expect-error: no database
  sqliteDatasource('shop.sqlite');
  // @ts-expect-error: not a number
  await double('1');
  await note();
  return double(1);
}
`;

describe('the types of the package', () => {
  it.each([
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
    ['commonjs', 'bundler'],
  ])(
    'hold for module %s and moduleResolution %s, in ES modules and CommonJS, with libraries checked',
    (module, resolution) => {
      // Users of SQLite have no @types/pg. Without the option, the compiler finds that package beside the link's target.
      const project = consumer(['holdfast', '@standard-schema/spec', '@types/node', 'undici-types']);
      const files = ['main.mts', 'main.cts'];
      for (const file of files) writeFileSync(join(project.folder, file), program);
      const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
      const options = [
        '--noEmit',
        '--strict',
        '--target',
        'es2022',
        '--types',
        'node',
        '--skipLibCheck',
        'false',
        '--preserveSymlinks',
      ];
      const { status, stdout } = project.run([
        ...[compiler, ...options, '--module', module, '--moduleResolution', resolution, ...files],
      ]);
      expect(stdout).toBe('');
      expect(status).toBe(0);
    },
  );
});
