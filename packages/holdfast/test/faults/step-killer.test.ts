import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { describeDrivers } from '../support/backends.js';
import { type Exit, requireBuild, runFixture } from './child-process.js';

describeDrivers('a step that kills its process', (backend) => {
  beforeAll(requireBuild);

  it('fails when its attempts are used up, and kills no more processes', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-killer-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const job = { database: await backend.newDatabase(), attemptsPath: join(folder, 'attempts') };
    const exits: Exit[] = [];
    do exits.push(await runFixture('step-killer.mjs', job));
    while (exits.at(-1)?.signal === 'SIGKILL' && exits.length < 10);
    // Three attempts, and one before them that was not recorded.
    expect(readFileSync(job.attemptsPath, 'utf8')).toBe('1 1 2 3 ');
    expect(exits.map(({ signal }) => signal)).toEqual(['SIGKILL', 'SIGKILL', 'SIGKILL', 'SIGKILL', null]);
    const { code, message } = JSON.parse(exits.at(-1)?.output ?? '{}');
    expect(code).toBe('STEP_ATTEMPTS_EXHAUSTED');
    expect(message).toContain('attempts 1, 2, 3');
    expect((await runFixture('step-killer.mjs', job)).signal).toBeNull();
  });
});
