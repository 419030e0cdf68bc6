import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import { launch, migrate, queue, run, workflow } from '../../src/index.js';
import { failure } from '../support/faults.js';
import { administer, connectTo, emptyDatabase, quiet } from './migrations-support.js';

async function restrictedRole(): Promise<{ owner: string; restricted: string; role: string }> {
  const owner = await emptyDatabase();
  const url = new URL(owner);
  const role = `restricted_${randomUUID().slice(0, 8)}`;
  Object.assign(url, { username: role, password: 'restricted' });
  await administer(`create role ${role} login password 'restricted'`);
  onTestFinished(() => administer(`drop role ${role}`));
  return { owner, restricted: url.href, role };
}

it('launch reports the rights that the role of the process lacks', async () => {
  const { owner, restricted } = await restrictedRole();
  const options = { name: 'test', database: restricted, logger: quiet };
  const message = /may not create or use.*permission denied.*migrate\(.*grant this role usage on the schema/s;
  expect(await failure(launch(options))).toMatchObject({ code: 'MIGRATION_REQUIRED', message });
  await migrate({ database: owner, logger: quiet });
  expect(await failure(launch({ ...options, migrate: false }))).toMatchObject({ code: 'RIGHTS_MISSING' });
});

it('an app works with the grants of docs/operate/deploying.md', async () => {
  const { owner, restricted, role } = await restrictedRole();
  const admin = await connectTo(owner);
  // Careful operators revoke this. By default every role may execute a function.
  await admin.query('alter default privileges revoke execute on functions from public');
  await migrate({ database: owner, logger: quiet });
  onTestFinished(async () => void (await admin.query(`drop owned by ${role}`)));
  const page = readFileSync(new URL('../../../../docs/operate/deploying.md', import.meta.url), 'utf8');
  await admin.query(/```sql\n(.*?)```/s.exec(page)?.[1]?.replaceAll(' to app;', ` to ${role};`) as string);
  const jobs = queue('jobs');
  const greet = workflow('greet', () => run('greet', () => 'hello'));
  const options = { name: 'test', database: restricted, logger: quiet, migrate: false };
  const app = await launch({ ...options, workflows: [greet], queues: [jobs] });
  expect(await greet()).toBe('hello');
  expect(await (await greet.with({ queue: jobs }).start()).result()).toBe('hello');
  await app.shutdown();
});
