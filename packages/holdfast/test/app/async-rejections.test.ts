import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import * as holdfast from '../../src/index.js';
import { connect, event, queue, run, step, stream, topic, transaction, workflow } from '../../src/index.js';
import { testApp } from '../../src/testing/index.js';
import { silent } from '../support/backends.js';

/** Public functions that return no promise, so they throw. */
const synchronous = [
  ...['FatalError', 'HoldfastError', 'context', 'debouncer', 'event', 'isHoldfastError', 'now', 'platformVersion'],
  ...['queue', 'random', 'registerClass', 'schedule', 'step', 'stream', 'topic', 'transaction', 'uuid', 'workflow'],
];
const synchronousMethods = ['app.register', 'app.workflows.handle', 'client.workflows.handle'];

const nothing = undefined as never;
const bad = { no: 'such option' } as never;

/** Calls of exported functions that must fail: bad arguments, or a call outside of a workflow. */
const functions: Record<string, () => unknown> = {
  launch: () => holdfast.launch(nothing),
  connect: () => holdfast.connect(nothing),
  migrate: () => holdfast.migrate(nothing),
  sleep: () => holdfast.sleep('1s'),
  run: () => run(nothing, nothing),
  patch: () => holdfast.patch(nothing),
  deprecatePatch: () => holdfast.deprecatePatch(nothing),
};

const greet = workflow('greet', async (name: string) => name);
const unknown = workflow('unknown', async (name: string) => name);
const news = topic<string>('news');
const state = event<string>('state');
const lines = stream<string>('lines');

const failing = {
  dialect: 'sqlite',
  schema: 'x',
  transact: () => Promise.reject(new Error('no')),
  query: async () => [],
};
const debit = transaction(failing as never, 'debit', async () => 1);

/** Calls of methods of public values that must fail. */
const methods: Record<string, () => unknown> = {
  'workflow()': () => unknown('Ada'),
  'workflow.start': () => unknown.start('Ada'),
  'workflow.startAll': () => greet.with({ queue: queue('q') }).startAll(nothing),
  'topic.send': () => news.send(nothing, 'x'),
  'topic.sendAll': () => news.sendAll(nothing),
  'topic.sendIn': () => news.sendIn(nothing, 'w', 'x'),
  'topic.receive': () => news.receive(),
  'event.set': () => state.set('x'),
  'event.get': () => state.get(nothing),
  'stream.write': () => lines.write('x'),
  'stream.close': () => lines.close(),
  'step()': () => step('s', () => Promise.reject(new Error('no')))(),
  'transaction()': () => debit(),
};

/** The call returns a promise that rejects, and throws nothing itself. */
async function rejects(name: string, call: () => unknown): Promise<void> {
  let returned: unknown;
  expect(() => {
    returned = call();
  }, `${name} throws`).not.toThrow();
  await expect(Promise.resolve(returned), `${name} does not fail`).rejects.toThrow();
}

it('every exported function is synchronous, or rejects', () => {
  const exported = Object.entries(holdfast).filter(([, value]) => typeof value === 'function');
  expect(exported.map(([name]) => name).sort()).toEqual([...synchronous, ...Object.keys(functions)].sort());
});

it.each(Object.entries(functions))('%s() rejects instead of throwing', (name, call) => rejects(name, call));

it.each(Object.entries(methods))('%s rejects instead of throwing', async (name, call) => {
  const t = await testApp({ workflows: [greet], logger: silent });
  onTestFinished(() => t.stop());
  await rejects(name, call);
});

it('every operation of an app and of a client rejects instead of throwing', async () => {
  const database = `sqlite:${join(await mkdtemp(join(tmpdir(), 'holdfast-rejections-')), 'x.sqlite')}`;
  const t = await testApp({ workflows: [greet], logger: silent, database });
  onTestFinished(() => t.stop());
  const client = await connect({ database, logger: silent });
  onTestFinished(() => client.close());
  const roots = { app: t.app, client } as unknown as Record<string, Record<string, unknown>>;
  for (const [root, object] of Object.entries(roots)) {
    for (const [member, value] of Object.entries(object)) {
      const calls =
        typeof value === 'function'
          ? { [`${root}.${member}`]: value }
          : typeof value === 'object'
            ? methodsOf(`${root}.${member}`, value)
            : {};
      for (const [name, call] of Object.entries(calls)) {
        if (synchronousMethods.includes(name)) continue;
        await rejects(name, () => (call as (...args: unknown[]) => unknown)(Symbol('bad'), bad, bad, bad));
      }
    }
  }
});

function methodsOf(name: string, object: unknown): Record<string, unknown> {
  const entries = Object.entries(object as object).filter(([, value]) => typeof value === 'function');
  return Object.fromEntries(entries.map(([key, value]) => [`${name}.${key}`, value]));
}
