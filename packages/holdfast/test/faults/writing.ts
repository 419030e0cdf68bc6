import { randomBytes } from 'node:crypto';
import { expect, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { type App, isHoldfastError, queue, run, workflow } from '../../src/index.js';
import { type RecordingLogger, recordingLogger } from '../support/faults.js';
import { isEnded, openRows } from './rows.js';

const minutes = 60_000;

/** Work that needs disk space, with a record of what ran and how often. */
export class Writing {
  readonly ran = new Map<string, number>();
  readonly logger = recordingLogger();
  readonly told: unknown[] = [];
  readonly work = workflow('work', async (id: string) => {
    for (const step of ['one', 'two']) await run(step, () => this.body(`${id}/${step}`));
    return id;
  });
  private n = 0;

  async launch(database: string): Promise<App> {
    const { work, logger } = this;
    const app = await launchWith({ name: 'test', database, workflows: [work], queues: [queue('jobs')], logger }, {});
    onTestFinished(() => app.shutdown());
    return app;
  }

  /** Keeps running workflows until it is told to stop. Returns how many there were. */
  async keepUp(app: App, done: () => boolean): Promise<number> {
    const one = async (): Promise<void> => {
      while (!done()) {
        const id = `wf-${this.n++}`;
        const how = this.n % 2 === 0 ? { id, app, queue: 'jobs' } : { id, app };
        expect(await this.work.with(how)(id)).toBe(id);
      }
    };
    await Promise.all(Array.from({ length: 10 }, one));
    return this.n;
  }

  /** A write whose caller gets an error if it fails. */
  async ask(app: App): Promise<void> {
    await app.workflows.cancel('wf-0').catch((error) => this.told.push(error));
  }

  /** Checks that everything is recorded, and was done once. */
  async check(database: string): Promise<void> {
    const rows = await openRows(database);
    const { workflows, steps } = await rows.read('wf-');
    await rows.close();
    expect(workflows.filter((row) => row.status !== 'SUCCESS' || !isEnded(row))).toEqual([]);
    expect([workflows.length, steps.length]).toEqual([this.n, 2 * this.n]);
    expect([...this.ran.values()].filter((times) => times !== 1)).toEqual([]);
    expect(this.ran.size).toBe(2 * this.n);
    expect(this.told.filter((error) => !isHoldfastError(error, 'DATABASE_FAILED'))).toEqual([]);
  }

  private body(key: string): string {
    this.ran.set(key, (this.ran.get(key) ?? 0) + 1);
    // Random bytes, because the database could compress other data.
    return randomBytes(15_000).toString('base64');
  }
}

export interface Trouble {
  fill(): unknown;
  makeRoom(): unknown;
  /** The log line about the trouble, and the least number of such lines before there is space again. */
  readonly said: RegExp;
  readonly lines?: number;
  /** Whether calls from outside wait for the trouble to end, too, instead of failing. */
  readonly holdsUp?: boolean;
}

/** Runs workflows, takes their disk space away for a while, and gives it back. */
export async function runOutOfRoom(
  writing: Writing,
  database: string,
  { fill, makeRoom, said, lines = 2, holdsUp = false }: Trouble,
): Promise<void> {
  const app = await writing.launch(database);
  const began = performance.now();
  let over = false;
  const working = writing.keepUp(app, () => over);
  await expect.poll(() => writing.ran.size, { timeout: minutes }).toBeGreaterThan(20);
  await fill();
  // By the second line the app has retried for most of a second.
  await expect.poll(() => writing.logger.matching(said).length, { timeout: minutes }).toBeGreaterThanOrEqual(lines);
  const stuckAt = writing.ran.size;
  const asked = writing.ask(app);
  if (!holdsUp) await asked;
  await makeRoom();
  await asked;
  await expect.poll(() => writing.ran.size, { timeout: minutes }).toBeGreaterThan(stuckAt + 20);
  over = true;
  await working;
  await writing.check(database);
  expectFewLines(writing.logger, (performance.now() - began) / 1000);
}

/** Expects at most one log line per second. */
function expectFewLines(logger: RecordingLogger, seconds: number): void {
  expect(logger.lines.length, logger.lines.join('\n')).toBeLessThanOrEqual(Math.ceil(seconds) + 1);
}
