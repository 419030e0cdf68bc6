import { expect, it } from 'vitest';
import { describeStorage } from './contract-support.js';

describeStorage('versions', (store) => {
  const names = async (appName = 'app'): Promise<string[]> =>
    (await store.storage.versions.list(appName)).map((version) => version.name);

  it('are listed per app, the latest first', async () => {
    const { versions } = store.storage;
    await versions.register({ name: 'v1', appName: 'app', now: 10 });
    await versions.register({ name: 'v2', appName: 'app', now: 20 });
    expect(await versions.list('app')).toEqual([
      { name: 'v2', appName: 'app', createdAt: 20, latestAt: 20 },
      { name: 'v1', appName: 'app', createdAt: 10, latestAt: 10 },
    ]);
  });

  it('do not change when they are registered again', async () => {
    const { versions } = store.storage;
    await versions.register({ name: 'v1', appName: 'app', now: 10 });
    await versions.register({ name: 'v1', appName: 'app', now: 99 });
    expect(await versions.list('app')).toEqual([{ name: 'v1', appName: 'app', createdAt: 10, latestAt: 10 }]);
  });

  it('are registered once when ten processes do so at once', async () => {
    const { versions } = store.storage;
    const register = (_: unknown, i: number) => versions.register({ name: 'v1', appName: 'app', now: i });
    await Promise.all(Array.from({ length: 10 }, register));
    expect(await names()).toEqual(['v1']);
  });

  it('become the latest, even within one millisecond and by a clock that is behind', async () => {
    const { versions } = store.storage;
    for (const name of ['v1', 'v2', 'v3']) await versions.register({ name, appName: 'app', now: 10 });
    expect(await versions.setLatest({ name: 'v2', appName: 'app', now: 10 })).toBe(true);
    expect((await names())[0]).toBe('v2');
    expect(await versions.setLatest({ name: 'v1', appName: 'app', now: 10 })).toBe(true);
    expect((await names())[0]).toBe('v1');
    expect(await versions.setLatest({ name: 'v3', appName: 'app', now: 1 })).toBe(true);
    expect((await names())[0]).toBe('v3');
    expect(await versions.setLatest({ name: 'v2', appName: 'app', now: 500 })).toBe(true);
    expect((await versions.list('app'))[0]).toEqual({ name: 'v2', appName: 'app', createdAt: 10, latestAt: 500 });
  });

  it('can have the same name in two apps, although the shared layout makes names globally unique', async () => {
    const { versions } = store.storage;
    await versions.register({ name: 'v1', appName: 'app', now: 10 });
    await versions.register({ name: 'v1', appName: 'other', now: 20 });
    await versions.register({ name: 'v1', appName: 'other', now: 30 });
    expect(await versions.list('app')).toEqual([{ name: 'v1', appName: 'app', createdAt: 10, latestAt: 10 }]);
    expect(await versions.list('other')).toEqual([{ name: 'v1', appName: 'other', createdAt: 20, latestAt: 20 }]);
    await versions.register({ name: 'v2', appName: 'other', now: 40 });
    expect(await versions.setLatest({ name: 'v1', appName: 'other', now: 50 })).toBe(true);
    expect(await names('other')).toEqual(['v1', 'v2']);
    expect(await versions.list('app')).toEqual([{ name: 'v1', appName: 'app', createdAt: 10, latestAt: 10 }]);
  });

  it('are kept even if another app uses the name under which they would be stored', async () => {
    const { versions } = store.storage;
    await versions.register({ name: 'v1', appName: 'app', now: 10 });
    await versions.register({ name: 'other/v1', appName: 'app', now: 20 });
    const registers = Array.from({ length: 5 }, () => versions.register({ name: 'v1', appName: 'other', now: 30 }));
    await Promise.all(registers);
    expect(await versions.list('other')).toEqual([{ name: 'v1', appName: 'other', createdAt: 30, latestAt: 30 }]);
    expect(await versions.setLatest({ name: 'v1', appName: 'other', now: 50 })).toBe(true);
    expect(await names()).toEqual(['other/v1', 'v1']);
  });

  it('are kept once per app when many processes of two apps register them at once', async () => {
    const { versions } = store.storage;
    const apps = Array.from({ length: 20 }, (_, i) => (i % 2 ? 'app' : 'other'));
    await Promise.all(apps.map((appName, i) => versions.register({ name: 'v1', appName, now: i })));
    expect(await names('app')).toEqual(['v1']);
    expect(await names('other')).toEqual(['v1']);
  });

  it('that DBOS registered without an app are visible to every app', async () => {
    const { versions } = store.storage;
    await store.sql(
      `insert into ${store.table('application_versions')} (version_id, version_name, version_timestamp, created_at)
       values ('1', 'old', 5, 5)`,
    );
    expect(await names('app')).toEqual(['old']);
    expect(await versions.list('')).toMatchObject([{ name: 'old', appName: null }]);
    expect(await versions.setLatest({ name: 'old', appName: 'other', now: 20 })).toBe(true);
  });

  it('are unknown if they are not registered, or belong to another app', async () => {
    const { versions } = store.storage;
    await versions.register({ name: 'mine', appName: 'app', now: 10 });
    expect(await versions.setLatest({ name: 'unknown', appName: 'app', now: 20 })).toBe(false);
    expect(await versions.setLatest({ name: 'mine', appName: 'other', now: 20 })).toBe(false);
    expect(await names('other')).toEqual([]);
    expect(await names()).toEqual(['mine']);
  });
});
