import { rm } from 'node:fs/promises';
import { expect, it, onTestFinished } from 'vitest';
import { blocksOf, compile, newProject, promisedOutput, runNode } from './programs.js';

it('The program of docs/guides/schedules.md prints what its comments say', async () => {
  const folder = await newProject();
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const program = (await blocksOf('docs/guides/schedules.md')).join('\n');
  const { code, output } = await runNode(folder, [await compile(folder, 'schedules', program)]);
  expect(promisedOutput(program).length).toBeGreaterThan(8);
  expect(output.trimEnd().split('\n')).toEqual(promisedOutput(program));
  expect(code).toBe(0);
});
