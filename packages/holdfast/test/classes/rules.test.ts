// biome-ignore-all lint/complexity/noThisInStatic: these tests check `this` in static methods.
import { expect, it } from 'vitest';
import { ConfiguredInstance, className, invoke, requireRole, step, workflow } from '../../src/classes/index.js';
import { workflow as plainWorkflow, run } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, recordingLogger } from '../support/faults.js';

function newCounter() {
  class Counter extends ConfiguredInstance {
    @workflow()
    async count(): Promise<string> {
      return this.configName;
    }

    @step()
    async add(): Promise<number> {
      return 1;
    }

    async plain(): Promise<number> {
      return 1;
    }
  }
  return Counter;
}

describeBackends('the rules of classes', (backend) => {
  it('refuse a second instance of the same name in its constructor', async () => {
    const Counter = newCounter();
    const first = new Counter('a');
    expect(() => new Counter('a')).toThrow(
      /Class "Counter" already has an instance named "a".*constructor of the existing instance threw.*before super/,
    );
    expect(await failure(Promise.resolve().then(() => new Counter('a')))).toMatchObject({ code: 'DUPLICATE_WORKFLOW' });
    await backend.testApp({ workflows: [Counter] });
    expect(await first.count()).toBe('a');
    new (newCounter())('a');
  });

  it('refuse two classes of the same name in one app, but not in two apps', async () => {
    const [one, two] = [newCounter(), newCounter()];
    const refused = await failure(backend.testApp({ workflows: [one, two] }));
    expect(refused).toMatchObject({ code: 'DUPLICATE_WORKFLOW' });
    expect(refused.message).toMatch(/Two different classes are named "Counter".*@className/);
    const [a, b] = [new one('a'), new two('a')];
    await backend.testApp({ workflows: [one], name: 'first' });
    await backend.testApp({ workflows: [two], name: 'second' });
    expect(await Promise.all([a.count(), b.count()])).toEqual(['a', 'a']);
  });

  it.each([
    ['', /must not be empty/],
    ['x'.repeat(256), /255 are allowed/],
    ['a\0b', /NUL/],
    [7 as unknown as string, /must be a string/],
  ])('refuse the name %j for an instance', (name, message) => {
    const Counter = newCounter();
    expect(() => new Counter(name)).toThrow(message);
  });

  it('allow names of 255 characters of any kind', async () => {
    const long = '\u{1F680}'.repeat(100) + 'it\'s/"x" 世'.repeat(5).slice(0, 55);
    @className(long)
    class Long extends ConfiguredInstance {
      @workflow()
      async work() {
        return run('step', () => this.configName);
      }
    }
    const instance = new Long(long);
    const t = await backend.testApp({ workflows: [Long] });
    expect(await invoke(instance).work.with({ id: 'x', delay: 0 })()).toBe(long);
    expect(await t.app.workflows.get('x')).toMatchObject({ className: long, configName: long });
  });

  it('register an instance that is constructed after launch with the running apps, and warn', async () => {
    const Counter = newCounter();
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [Counter], logger });
    const late = new Counter('late');
    expect(await late.count()).toBe('late');
    expect(logger.matching(/instance "late" of class "Counter" was constructed after launch/)).toHaveLength(1);
    await t.app.shutdown();
    const after = new Counter('after');
    expect(logger.matching(/constructed after/)).toHaveLength(1);
    expect(await failure(after.count())).toMatchObject({ code: 'NOT_LAUNCHED' });
  });

  it('register instances that are constructed while an app launches', async () => {
    const Counter = newCounter();
    const launching = backend.testApp({ workflows: [Counter], database: await backend.newDatabase() });
    const meanwhile = new Counter('meanwhile');
    await launching;
    expect(await meanwhile.count()).toBe('meanwhile');
  });

  it('limit an app that was given one instance to that instance', async () => {
    const Counter = newCounter();
    const [mine, other] = [new Counter('mine'), new Counter('other')];
    const t = await backend.testApp({ workflows: [mine] });
    expect(await mine.count()).toBe('mine');
    const refused = await failure(other.count());
    expect(refused).toMatchObject({ code: 'NOT_LAUNCHED' });
    expect(refused.message).toMatch(/"Counter\/other.count" belongs to no running app. Give its class to launch/);
    t.app.register(other);
    expect(await other.count()).toBe('other');
    t.app.register(Counter);
    expect(await new Counter('third').count()).toBe('third');
  });

  it('accept classes and instances from the exports of a module, and skip exports without workflows', async () => {
    const [Counter, Other] = [newCounter(), newCounter()];
    class Plain {}
    const [a, b] = [new Counter('a'), new Other('b')];
    const named = plainWorkflow('named', async () => 1);
    const t = await backend.testApp({ workflows: { Counter, Plain, named, constant: 7, object: {} } });
    expect([await a.count(), await named()]).toEqual(['a', 1]);
    expect(await failure(b.count())).toMatchObject({ code: 'NOT_LAUNCHED' });
    expect(() => t.app.register(Plain)).toThrow(/register\(\).*argument 1.*a class with workflows/);
  });

  it('store inherited methods under the class of the instance, and run super calls inside the workflow', async () => {
    class Base extends ConfiguredInstance {
      @workflow()
      async work(): Promise<string> {
        return `base ${await this.part()}`;
      }

      @workflow()
      async inherited(): Promise<string> {
        return this.configName;
      }

      @step()
      async part(): Promise<string> {
        return 'part';
      }

      @workflow()
      static async make(): Promise<string> {
        return this.name;
      }
    }
    class Derived extends Base {
      @workflow()
      override async work(): Promise<string> {
        return `derived ${await super.work()}`;
      }

      @workflow()
      static override async make(): Promise<string> {
        return `derived ${await super.make()}`;
      }

      @step()
      override async part(): Promise<string> {
        return `derived ${await super.part()}`;
      }
    }
    class Further extends Derived {}
    const [base, derived] = [new Base('x'), new Derived('x')];
    const t = await backend.testApp({ workflows: [Base, Derived, Further] });
    expect(await base.work()).toBe('base part');
    expect(await invoke(derived).work.with({ id: 'd' })()).toBe('derived base derived part');
    expect(await t.app.workflows.get('d')).toMatchObject({ name: 'work', className: 'Derived', configName: 'x' });
    expect(await t.app.workflows.steps('d')).toMatchObject([{ name: 'part' }]);
    expect([await derived.inherited(), await Base.make()]).toEqual(['x', 'Base']);
    expect([await Derived.make(), await Further.make()]).toEqual(['derived Derived', 'derived Further']);
    const names = (await t.app.workflows.list({ name: 'make' })).map((each) => each.className).sort();
    expect(names).toEqual(['Base', 'Derived', 'Further']);
  });

  it('allow steps of the same name in two classes, but not in one class', async () => {
    class One {
      @step({ name: 'save' })
      async first() {
        return 1;
      }

      @step({ name: 'save' })
      async second() {
        return 2;
      }
    }
    class Two {
      @step()
      async save() {
        return 3;
      }
    }
    const [one, two] = [new One(), new Two()];
    const fine = plainWorkflow('fine', async () => [await one.first(), await two.save()]);
    const clash = plainWorkflow('clash', async () => [await one.first(), await one.second()]);
    await backend.testApp({ workflows: [fine, clash] });
    expect(await fine()).toEqual([1, 3]);
    const refused = await failure(clash());
    expect(refused).toMatchObject({ code: 'STEP_NAME_CLASH' });
    expect(refused.message).toContain('"One.save"');
  });
});

it('invoke() refuses a method that is not a workflow', () => {
  const Counter = newCounter();
  const counter = new Counter('a');
  for (const name of ['add', 'plain', 'unknown']) {
    expect(() => (invoke(counter) as never)[name]).toThrow(`Method "${name}" is not a workflow`);
  }
  expect(() => invoke(7 as never)).toThrow(/a ConfiguredInstance or a class/);
  expect(Object.keys(invoke(counter))).toEqual(['count']);
});

it('a workflow method needs its instance, but a static method knows its class', async () => {
  const { count } = newCounter().prototype;
  expect(() => count()).toThrow(/"count" was called without its instance/);
  class Tool extends ConfiguredInstance {
    @workflow()
    static async make() {
      return this.name;
    }
  }
  const { make } = Tool;
  expect(await failure(make())).toMatchObject({ code: 'NOT_LAUNCHED' });
});

it('a workflow method must be public, in a class that extends ConfiguredInstance', () => {
  // JavaScript code can do what the TypeScript compiler refuses.
  const anything = (options = {}) => workflow(options) as never as typeof step extends () => infer D ? D : never;
  class Wrong {
    @anything()
    async work() {}
  }
  expect(() => new Wrong()).toThrow(/class "Wrong" must extend ConfiguredInstance/);
  expect(() => {
    class Private extends ConfiguredInstance {
      @anything()
      async #work() {}
      work = () => this.#work();
    }
    return Private;
  }).toThrow(/"#work" is private/);
  expect(() => {
    class Typo extends ConfiguredInstance {
      @anything({ retires: 3 })
      async work() {}
    }
    return Typo;
  }).toThrow(/no option "retires"/);
});

it('a decorator that hides a workflow is refused, and so is a role that no workflow checks', () => {
  const wrapped =
    () =>
    <T extends (...args: never[]) => unknown>(fn: T, _context: unknown): T =>
      ((...args: never[]) => fn(...args)) as T;
  class Hidden extends ConfiguredInstance {
    @wrapped()
    @workflow()
    async work() {}
  }
  expect(() => new Hidden('a')).toThrow(/Put @workflow\(\) above/);
  class Unchecked extends ConfiguredInstance {
    @requireRole('admin')
    @step()
    async work() {}
  }
  expect(() => new Unchecked('a')).toThrow(/requires a role, but is not a workflow/);
  expect(() => {
    class Twice extends ConfiguredInstance {
      @requireRole('admin')
      @workflow({ requireRole: ['ops'] })
      async work() {}
    }
    return Twice;
  }).toThrow(/"requireRole" is given twice/);
});

it('a class without a name needs @className for its workflows', () => {
  const Anonymous = (() =>
    class extends ConfiguredInstance {
      @workflow()
      async work() {}
    })();
  Object.defineProperty(Anonymous, 'name', { value: '' });
  expect(() => new Anonymous('a')).toThrow(/@className/);
});
