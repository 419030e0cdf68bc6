import vm from 'node:vm';
import { describe, expect, it } from 'vitest';
import { createCodecs, registerClass } from './codecs.js';

const { native, portable } = createCodecs();
const roundTrip = (value: unknown): unknown => native.decode(native.encode(value, 'The value') as string);

class Point {
  constructor(
    readonly x: number,
    readonly at: Date,
  ) {}
  double(): number {
    return this.x * 2;
  }
}
registerClass(Point);

class Money {
  #cents: bigint;
  constructor(cents: bigint) {
    this.#cents = cents;
  }
  get cents(): bigint {
    return this.#cents;
  }
}
registerClass(Money, { name: 'shop.Money', to: (money) => money.cents, from: (cents) => new Money(cents) });

class Scores extends Map<string, Date> {}
registerClass(Scores, { to: (scores) => new Map(scores), from: (entries) => new Scores(entries) });

describe('instances of registered classes', () => {
  it('are read as instances with their fields', () => {
    const copy = roundTrip({ points: [new Point(2, new Date(5))] }) as { points: [Point] };
    expect(copy.points[0]).toBeInstanceOf(Point);
    expect(copy.points[0]).toStrictEqual(new Point(2, new Date(5)));
    expect(copy.points[0].double()).toBe(4);
  });

  it('are stored and read by the "to" and "from" of their class', () => {
    const money = roundTrip(new Money(12n)) as Money;
    expect(money).toBeInstanceOf(Money);
    expect(money.cents).toBe(12n);
    expect(roundTrip([new Scores([['a', new Date(1)]])])).toStrictEqual([new Scores([['a', new Date(1)]])]);
  });

  it.each([
    ['undefined', undefined],
    ['null', null],
    ['a number', 5],
    ['an array', [new Date(0), 'x']],
    ['a text', 'text'],
    ['an object that looks like our box', { holdfast_value: new Date(0) }],
  ])('may be stored as %s', (_, stored) => {
    class Holder {
      readonly content: unknown;
      constructor(content: unknown) {
        this.content = content;
      }
    }
    registerClass(Holder, {
      name: `Holder of ${_}`,
      to: ({ content }) => content,
      from: (content) => new Holder(content),
    });
    expect(roundTrip({ a: new Holder(stored) })).toStrictEqual({ a: new Holder(stored) });
  });

  it('keep their shared references and cycles', () => {
    const tags = ['a'];
    const point = Object.assign(new Point(1, new Date(0)), { tags, self: undefined as unknown });
    point.self = point;
    const copy = roundTrip({ tags, point, price: [new Money(1n), point] }) as {
      tags: unknown;
      point: typeof point;
      price: unknown[];
    };
    expect(copy.point.tags).toBe(copy.tags);
    expect(copy.point.self).toBe(copy.point);
    expect(copy.price[1]).toBe(copy.point);
  });

  it('are refused by the portable format, which does not store their class', () => {
    expect(() => portable.encode(new Point(1, new Date(0)), 'x')).toThrow(
      /is a Point, which portable JSON cannot hold/,
    );
  });

  it('are refused if only a base class is registered', () => {
    class Point3 extends Point {}
    expect(() => native.encode(new Point3(1, new Date(0)), 'x')).toThrow(/registerClass\(Point3\)/);
  });

  it('do not take their prototype from a stored "__proto__"', () => {
    const text =
      '{"json":{"x":1,"__proto__":{"double":1}},"meta":{"values":[["class","Point"]],"v":1},"__dbos_serializer":"superjson"}';
    expect(native.decode(text)).toStrictEqual(Object.assign(Object.create(Point.prototype), { x: 1 }));
  });
});

const one = (): unknown => 1;

describe('registerClass', () => {
  it('may be called again for the same class', () => {
    expect(() => registerClass(Point)).not.toThrow();
  });

  it('refuses two classes under one name', () => {
    class Other {}
    expect(() => registerClass(Other, { name: 'Point' })).toThrow(
      expect.objectContaining({
        code: 'INVALID_NAME',
        message: expect.stringContaining('Two classes have the name "Point"'),
      }),
    );
  });

  it('refuses a second name for one class', () => {
    expect(() => registerClass(Point, { name: 'Dot' })).toThrow(
      /already registered and cannot also have the name "Dot"/,
    );
  });

  it.each([
    ['a value that is not a class', 5 as never, {}, 'INVALID_OPTION'],
    ['a class without a name', class {}, {}, 'INVALID_NAME'],
    ['the name of a built-in recipe', class X {}, { name: 'Buffer' }, 'INVALID_NAME'],
    ['a built-in class', WeakMap, {}, 'INVALID_OPTION'],
    ['an unknown option', class X {}, { form: one }, 'INVALID_OPTION'],
    ['"to" without "from"', class X {}, { to: one }, 'INVALID_OPTION'],
    ['a "to" that is not a function', class X {}, { to: 1, from: 1 }, 'INVALID_OPTION'],
    ['a "from" that is not a function', class X {}, { to: one, from: 1 }, 'INVALID_OPTION'],
    ['an Error class with "to"', class X extends Error {}, { to: one, from: one }, 'INVALID_OPTION'],
    ['a class that extends Map, without "to"', class X extends Map {}, {}, 'INVALID_OPTION'],
  ])('refuses %s', (_, Class, options, code) => {
    expect(() => registerClass(Class, options as object)).toThrow(expect.objectContaining({ code }));
  });
});

describe('objects of another realm', () => {
  it('are recognized by their type', () => {
    const value: unknown = vm.runInNewContext(
      '({ list: [1], date: new Date(5), map: new Map([["a", new Set([1])]]), error: new TypeError("no"), re: /x/g })',
    );
    expect(roundTrip(value)).toMatchObject({
      list: [1],
      date: new Date(5),
      map: new Map([['a', new Set([1])]]),
      re: /x/g,
      error: new TypeError('no'),
    });
  });

  it('are refused if their class is not registered', () => {
    expect(() => native.encode(vm.runInNewContext('new (class Far {})()'), 'x')).toThrow(/instance of Far/);
  });
});
