import { expectTypeOf } from 'vitest';
import { z } from 'zod';
import {
  type App,
  type BackfillTick,
  type Schedule,
  type ScheduleInfo,
  schedule,
  type WorkflowHandle,
  workflow,
} from '../../src/index.js';

/** The types that the compiler infers for schedules. See inference.test-d.ts. */

interface Region {
  readonly region: string;
  readonly limit?: number;
}
const report = workflow('report', async (at: Date, { region }: Region) => `${at} ${region}`);
const cleanUp = workflow('clean-up', async () => {});
const ping = workflow('ping', async (at: Date) => at);
const optional = workflow('optional', async (at: Date, given?: Region) => [at, given]);
const checked = workflow('checked', async (at: Date) => at, { input: z.date() });
const byName = workflow('by-name', async (name: string) => name);
const three = workflow('three', async (_at: Date, _given: Region, more: number) => more);

export function definitions(): void {
  expectTypeOf(schedule('s', '* * * * *', report, { context: { region: 'eu' } })).toEqualTypeOf<Schedule>();
  schedule('s', '* * * * *', cleanUp);
  schedule('s', '* * * * *', cleanUp, { context: 'not looked at' });
  schedule('s', '* * * * *', ping, { timezone: 'Europe/Berlin', catchUp: 'one' });
  schedule('s', '* * * * *', optional);
  schedule('s', '* * * * *', optional, { context: { region: 'eu' } });
  schedule('s', '* * * * *', checked);
  schedule('s', '* * * * *', 'a name', { context: 1 });
  // @ts-expect-error a workflow that needs a context
  schedule('s', '* * * * *', report);
  // @ts-expect-error a workflow that needs a context
  schedule('s', '* * * * *', report, { timezone: 'UTC' });
  // @ts-expect-error another context than the workflow takes
  schedule('s', '* * * * *', report, { context: { region: 7 } });
  // @ts-expect-error another context than the workflow takes
  schedule('s', '* * * * *', optional, { context: 'eu' });
  // @ts-expect-error a workflow that takes no time
  schedule('s', '* * * * *', byName);
  // @ts-expect-error a workflow that takes more than a schedule gives
  schedule('s', '* * * * *', three, { context: { region: 'eu' } });
  // @ts-expect-error no such policy
  schedule('s', '* * * * *', ping, { catchUp: 'some' });
  const defined = schedule('s', '* * * * *', ping);
  // @ts-expect-error it cannot be changed
  defined.cron = '0 * * * *';
}

export async function operations(app: App): Promise<void> {
  const range = { from: '2026-01-01', to: new Date() };
  expectTypeOf(await app.schedules.list()).toEqualTypeOf<ScheduleInfo[]>();
  expectTypeOf(await app.schedules.get('s')).toEqualTypeOf<ScheduleInfo | undefined>();
  expectTypeOf(await app.schedules.trigger<string>('s')).toEqualTypeOf<WorkflowHandle<string>>();
  expectTypeOf(await app.schedules.backfill('s', range)).toEqualTypeOf<WorkflowHandle[]>();
  expectTypeOf(await app.schedules.backfill('s', { ...range, preview: true })).toEqualTypeOf<BackfillTick[]>();
  await app.schedules.update('s', { workflow: ping, queue: null });
  await app.schedules.update('s', { workflow: report, context: { region: 'eu' } });
  // @ts-expect-error a workflow that takes no time
  await app.schedules.update('s', { workflow: byName });
}
