import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeBackends } from '../support/backends.js';
import { consumer, printed, root } from './consumer.js';

/**
 * For both `require` and `import`, Node loads the ES modules of the package. It requires CommonJS only if a flag says
 * so, or if it is too old for ES modules.
 */
const ways = [
  ['as this Node does', []],
  ['as a Node that cannot require ES modules', ['--no-experimental-require-module']],
] as const;

describeBackends('the package', (backend) => {
  it.each(ways)('can be required, %s', async (_, flags) => {
    const project = consumer();
    const program = project.add('program.cjs');
    expect(printed(project.run([...flags, program], { DATABASE: await backend.newDatabase() }))).toBe('Hello Ada');
  });

  it.each(ways)('can be required and imported in one process, %s', async (_, flags) => {
    const project = consumer();
    const program = project.add('both.cjs');
    const found = printed(project.run([...flags, program], { DATABASE: await backend.newDatabase() }));
    const isOneCopy = flags.length === 0;
    expect(found).toEqual({ isOneCopy, isRecognized: true, result: [0, 1, 2, 3, 1], charges: 1 });
  });
});

describe('every entry point of the package', () => {
  const { exports } = JSON.parse(readFileSync(join(root, 'packages', 'holdfast', 'package.json'), 'utf8'));
  const entries = Object.keys(exports).filter((each) => each !== './package.json');

  it.each(ways)('can be required, %s', (_, flags) => {
    const project = consumer();
    const names = entries.map((each) => each.replace('.', 'holdfast'));
    const program = `console.log(JSON.stringify(${JSON.stringify(names)}.filter((each) => !Object.keys(require(each)).length)))`;
    expect(names).toContain('holdfast/sqlite');
    expect(printed(project.run([...flags, '-e', program]))).toEqual([]);
  });
});
