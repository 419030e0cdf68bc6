import { rm } from 'node:fs/promises';
import { expect, it, onTestFinished } from 'vitest';
import { blocksOf, compile, newProject, promisedOutput, runNode } from './programs.js';

it('The program of docs/guides/messages.md prints what its comments say', async () => {
  const folder = await newProject();
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const program = (await blocksOf('docs/guides/messages.md')).join('\n');
  const { code, output } = await runNode(folder, [await compile(folder, 'messages', program)]);
  expect(promisedOutput(program).length).toBeGreaterThan(8);
  // The program provokes a retry. Its log line has an ID and a delay that vary.
  const lines = output
    .trimEnd()
    .split('\n')
    .filter((line) => !line.startsWith('holdfast: Step "flaky"'));
  expect(lines).toEqual(promisedOutput(program));
  expect(code).toBe(0);
});
