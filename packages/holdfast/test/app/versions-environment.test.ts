import { afterEach, expect, it, vi } from 'vitest';
import { platformVersion, queue, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, recordingLogger } from '../support/faults.js';

const jobs = queue('jobs');
const greet = (text = 'Hello') => workflow('greet', async (name: string) => `${text} ${name}`);
const sleepy = (text: string) =>
  workflow('sleepy', async () => {
    await sleep('1h');
    return text;
  });

describeBackends('the version named by the environment', (backend) => {
  afterEach(() => vi.unstubAllEnvs());

  it('is the version of the process, so new code continues the work of old code', async () => {
    vi.stubEnv('HOLDFAST_VERSION', 'release-7');
    const t = await backend.testApp({ workflows: [sleepy('old')] });
    expect(t.app.version).toBe('release-7');
    const { id } = await sleepy('old').start();
    await t.clock.advance('1m');
    const next = await t.restart({ workflows: [sleepy('new')] });
    expect(await next.clock.runUntil(next.app.workflows.handle(id).result())).toBe('new');
  });

  it('yields to a version or dev: true in launch(), and takes precedence over the watcher', async () => {
    vi.stubEnv('HOLDFAST_VERSION', 'release-7');
    vi.stubEnv('WATCH_REPORT_DEPENDENCIES', '1');
    const t = await backend.testApp({ workflows: [greet()], version: 'mine' });
    expect(t.app.version).toBe('mine');
    const developed = await t.restart({ version: undefined, dev: true });
    expect(developed.app.version).toMatch(/^dev@/);
    const watched = await developed.restart({ version: undefined, dev: undefined as never });
    expect(watched.app.version).toBe('release-7');
  });

  it('is refused if it is not a valid version, and ignored if it is empty', async () => {
    vi.stubEnv('HOLDFAST_VERSION', 'dev@host');
    expect(await failure(backend.testApp({ workflows: [greet()] }))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('HOLDFAST_VERSION'),
    });
    vi.stubEnv('HOLDFAST_VERSION', 'x'.repeat(2_000));
    expect(await failure(backend.testApp({ workflows: [greet()] }))).toMatchObject({
      code: 'INVALID_NAME',
      message: expect.stringContaining('HOLDFAST_VERSION'),
    });
    vi.stubEnv('HOLDFAST_VERSION', '');
    expect((await backend.testApp({ workflows: [greet()] })).app.version).toMatch(/^[0-9a-f]{32}$/);
  });
});

describeBackends('a hash as the version in production', (backend) => {
  afterEach(() => vi.unstubAllEnvs());

  it('causes one warning at launch, which lists the ways to set a version', async () => {
    vi.stubEnv('NODE_ENV', 'production');
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [greet()], queues: [jobs], logger });
    const warning =
      /hash of its workflow functions.*HOLDFAST_VERSION.*launch\(\{ version \}\).*patch\(\).*platformVersion/s;
    expect(logger.matching(warning)).toHaveLength(1);
    expect(logger.matching(new RegExp(t.app.version))).toHaveLength(1);
  });

  it('causes no warning if a version is set, if there are no workflows, or outside production', async () => {
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [greet()], logger });
    vi.stubEnv('NODE_ENV', 'production');
    const set = await t.restart({ version: 'v1' });
    const none = await set.restart({ version: undefined, workflows: [] });
    vi.stubEnv('HOLDFAST_VERSION', 'v2');
    await none.restart({ workflows: [greet()] });
    expect(logger.matching(/hash of its workflow functions/)).toEqual([]);
  });
});

it('platformVersion() reads the variables of hosting platforms first, then those of CI services', () => {
  expect(platformVersion({})).toBeUndefined();
  expect(platformVersion({ GITHUB_SHA: 'of the job', RENDER_GIT_COMMIT: 'of the service' })).toBe('of the service');
  expect(platformVersion({ GITHUB_SHA: 'of the job', RENDER_GIT_COMMIT: '' })).toBe('of the job');
  expect(platformVersion({ AWS_LAMBDA_FUNCTION_VERSION: '17' })).toBe('17');
  expect(platformVersion({ AWS_LAMBDA_FUNCTION_VERSION: '$LATEST' })).toBeUndefined();
});
