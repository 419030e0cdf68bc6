import { rm } from 'node:fs/promises';
import { expect, it, onTestFinished } from 'vitest';
import { blocksOf, compile, newProject, promisedOutput, runNode } from './programs.js';

it('the recipes of docs/guides/recipes.md print what their comments say', async () => {
  const folder = await newProject();
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const program = (await blocksOf('docs/guides/recipes.md')).join('\n');
  const { code, output } = await runNode(folder, [await compile(folder, 'recipes', program)]);
  expect(promisedOutput(program).length).toBeGreaterThan(8);
  expect(output.trimEnd().split('\n')).toEqual(promisedOutput(program));
  expect(code).toBe(0);
});
