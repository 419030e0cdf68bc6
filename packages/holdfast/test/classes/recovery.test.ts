// biome-ignore-all lint/complexity/noThisInStatic: these tests check `this` in static methods.
import { expect, it } from 'vitest';
import { ConfiguredInstance, invoke, step, workflow } from '../../src/classes/index.js';
import { workflow as plainWorkflow, queue, run, sleep } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { recordingLogger, tamper } from '../support/faults.js';

/** Creates the class as another process has it: the same code and names, but different objects. */
function newMailer(sent: string[] = []) {
  class Mailer extends ConfiguredInstance {
    constructor(
      name: string,
      readonly server = `server of ${name}`,
    ) {
      super(name);
    }

    @workflow()
    async deliver(text: string): Promise<string> {
      await this.post(`first ${text}`);
      await sleep('1h');
      return this.post(`second ${text}`);
    }

    @workflow()
    async parent(text: string): Promise<string> {
      return this.deliver(text);
    }

    @workflow()
    static async sweep(): Promise<string> {
      await sleep('1h');
      return this.name;
    }

    @step()
    async post(text: string): Promise<string> {
      sent.push(`${text} by ${this.server}`);
      return `${text} by ${this.server}`;
    }
  }
  return Mailer;
}

describeBackends('recovery of class instances', (backend) => {
  it('finds each instance by class and name, with its current configuration', async () => {
    const sent: string[] = [];
    const before = newMailer(sent);
    const t = await backend.testApp({ workflows: [before] });
    const [a, b] = [new before('a'), new before('b')];
    const handles = [await invoke(a).deliver.start('x'), await invoke(b).deliver.start('y')];
    const still = await invoke(before).sweep.start();
    await t.clock.advance('1m');
    await t.crash();
    const after = newMailer(sent);
    [new after('b'), new after('a', 'new server')];
    const again = await t.restart({ workflows: [after] });
    const results = [...handles, still].map(({ id }) => again.app.workflows.handle(id).result());
    expect(await again.clock.runUntil(Promise.all(results))).toEqual([
      'second x by new server',
      'second y by server of b',
      'Mailer',
    ]);
    expect(sent.sort()).toEqual([
      'first x by server of a',
      'first y by server of b',
      'second x by new server',
      'second y by server of b',
    ]);
    expect(await again.app.workflows.get(handles[0]?.id ?? '')).toMatchObject({ attempts: 2, configName: 'a' });
  });

  it('warns once about a missing instance, delays no other, and continues once it is constructed', async () => {
    const before = newMailer();
    const other = plainWorkflow('other', async () => {
      await sleep('1h');
      return 'not held up';
    });
    const t = await backend.testApp({ workflows: [before, other] });
    const late = await invoke(new before('late')).deliver.start('x');
    const parent = await invoke(new before('known')).parent.start('y');
    const plain = await other.start();
    await t.clock.advance('1m');
    await t.crash();
    const after = newMailer();
    new after('known');
    const logger = recordingLogger();
    const again = await t.restart({ workflows: [after, other], logger });
    const result = (id: string) => again.app.workflows.handle(id).result();
    for (let second = 0; second < 5; second++) await again.clock.advance('1s');
    const warnings = () => logger.matching(/cannot be recovered/);
    expect(warnings()).toHaveLength(1);
    expect(warnings()[0]).toContain(`"${late.id}"`);
    expect(warnings()[0]).toContain('Construct the instance "late" of class "Mailer"');
    const others = Promise.all([result(parent.id), result(plain.id)]);
    expect(await again.clock.runUntil(others)).toEqual(['second y by server of known', 'not held up']);
    expect(await again.app.workflows.get(late.id)).toMatchObject({ status: 'PENDING', attempts: 1 });
    new after('late');
    expect(logger.matching(/constructed after launch/)[0]).toMatch(/instance "late" of class "Mailer"/);
    await again.clock.advance('2s');
    expect(await again.clock.runUntil(result(late.id))).toBe('second x by server of late');
    expect(await again.app.workflows.get(late.id)).toMatchObject({ attempts: 2 });
    expect(warnings()).toHaveLength(1);
  });

  it('leaves queued work of a missing instance on its queue, warns, and runs it after construction', async () => {
    const database = await backend.newDatabase();
    const Mailer = newMailer();
    const jobs = queue('jobs');
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [Mailer], queues: [jobs], database, logger, version: 'v' });
    const known = new Mailer('known');
    const lost = await invoke(known).deliver.with({ queue: jobs, delay: '1m' }).start('lost');
    await tamper(database, `update workflow_status set config_name = 'lost' where workflow_uuid = '${lost.id}'`);
    const fine = await invoke(known).deliver.with({ queue: jobs, delay: '1m' }).start('fine');
    expect(await t.clock.runUntil(fine.result())).toBe('second fine by server of known');
    expect(await t.app.workflows.get(lost.id)).toMatchObject({ status: 'ENQUEUED', attempts: 0, configName: 'lost' });
    expect(logger.matching(/no workflow named "Mailer\/lost.deliver"/)).toHaveLength(1);
    new Mailer('lost');
    expect(await t.clock.runUntil(lost.result())).toBe('second lost by server of lost');
  });

  it('leaves work on a queue to the process that has the instance', async () => {
    const database = await backend.newDatabase();
    const jobs = queue('jobs', { concurrency: 5 });
    const [Mine, Other] = [newMailer(), newMailer()];
    const [mine, other] = [new Mine('mine'), new Other('other')];
    const a = await backend.testApp({ workflows: [Mine], queues: [jobs], database, executorId: 'a' });
    await backend.testApp({ workflows: [Other], queues: [jobs], database, executorId: 'b', clock: a.clock });
    const given = Array.from({ length: 6 }, (_, i) => [`${i}`] as [string]);
    const handles = await invoke(mine).deliver.with({ queue: jobs }).startAll(given);
    handles.push(...(await invoke(other).deliver.with({ queue: jobs }).startAll(given)));
    await a.clock.runUntil(Promise.all(handles.map(({ id }) => a.app.workflows.handle(id).result())));
    const done = await a.app.workflows.list();
    expect(new Set(done.map((each) => `${each.configName} by ${each.executorId}`))).toEqual(
      new Set(['mine by a', 'other by b']),
    );
    expect(done).toHaveLength(12);
  });

  it('continues a workflow that was handed over at shutdown, and one that is resumed', async () => {
    const before = newMailer();
    const database = await backend.newDatabase();
    const first = await backend.testApp({ workflows: [before], database });
    const mailer = new before('m');
    const handles = [await invoke(mailer).deliver.start('x'), await invoke(mailer).deliver.start('y')];
    await first.clock.advance('1m');
    await handles[1]?.cancel();
    await first.app.shutdown();
    const after = newMailer();
    new after('m');
    const again = await backend.testApp({ workflows: [after], database, clock: first.clock });
    await again.app.workflows.resume(handles[1]?.id ?? '');
    const results = handles.map(({ id }) => again.app.workflows.handle(id).result());
    expect(await again.clock.runUntil(Promise.all(results))).toEqual([
      'second x by server of m',
      'second y by server of m',
    ]);
  });

  it('keeps the version if the instances change, and changes it if the code of a method changes', async () => {
    const versionOf = async (given: Parameters<typeof backend.testApp>[0]) =>
      (await backend.testApp(given)).app.version;
    const [none, one, two] = [newMailer(), newMailer(), newMailer()];
    new one('a');
    [new two('a'), new two('b')];
    const instance = new (newMailer())('a');
    const versions = [await versionOf({ workflows: [none] }), await versionOf({ workflows: [one] })];
    versions.push(await versionOf({ workflows: [two] }), await versionOf({ workflows: [instance] }));
    expect(new Set(versions).size).toBe(1);
    class Mailer extends ConfiguredInstance {
      @workflow()
      async deliver(text: string) {
        return text;
      }
    }
    expect(await versionOf({ workflows: [Mailer] })).not.toBe(versions[0]);
  });

  it('keeps plain workflows apart from methods of the same name', async () => {
    class Shop extends ConfiguredInstance {
      @workflow()
      async checkout() {
        await sleep('1h');
        return 'method';
      }
    }
    const checkout = plainWorkflow('checkout', async () => {
      await sleep('1h');
      return run('work', () => 'function');
    });
    const shop = new Shop('eu');
    const t = await backend.testApp({ workflows: [shop, checkout] });
    const handles = [await invoke(shop).checkout.start(), await checkout.start()];
    await t.clock.advance('1m');
    const again = await t.restart();
    const results = Promise.all(handles.map(({ id }) => again.app.workflows.handle(id).result()));
    expect(await again.clock.runUntil(results)).toEqual(['method', 'function']);
  });
});
