import { describe, expect, it, vi } from 'vitest';
import { createCodecs, type Encoded, registerClass, type Serializer } from './codecs.js';

const { native, portable } = createCodecs();

class Money {
  constructor(readonly cents: number) {}
}
registerClass(Money, { to: ({ cents }) => cents, from: (cents) => new Money(cents) });

class Forgotten {
  readonly fields = 1;
}
registerClass(Forgotten, {
  to: ({ fields }) => fields,
  from: () => {
    throw new TypeError('what is a 1?');
  },
});

class Grumpy extends Error {
  override get name(): string {
    throw new Error('no name');
  }
}
registerClass(Grumpy);

/** Returns how often JSON.parse is called while a value is written. */
function readsWhile(write: () => unknown): number {
  const parse = vi.spyOn(JSON, 'parse');
  try {
    write();
    return parse.mock.calls.length;
  } finally {
    parse.mockRestore();
  }
}

describe('a written text', () => {
  const plain = { id: 'order-7', items: [{ sku: 'a', n: 1 }], paid: true, note: null };
  const rich = { at: new Date(0), map: new Map([[1, new Set(['a'])]]), big: 5n, missing: undefined };

  it.each([
    ['a plain value', plain],
    ['a value of built-in classes', rich],
    ['a text', 'text'],
  ])('is not read again if reading cannot fail: %s', (_, value) => {
    expect(readsWhile(() => native.encode(value, 'x'))).toBe(0);
    expect(readsWhile(() => native.encodeArguments([value], 'x'))).toBe(0);
  });

  it('is read once if the caller needs a copy, and is not read for a primitive value', () => {
    expect(readsWhile(() => native.encodeAndRead(plain, 'x'))).toBe(1);
    expect(readsWhile(() => native.encodeAndRead(new Money(5), 'x'))).toBe(1);
    for (const value of ['text', 5, null, undefined, true, 5n]) {
      expect(readsWhile(() => native.encodeAndRead(value, 'x'))).toBe(0);
    }
  });

  it('is read once if a registered class has "from"', () => {
    expect(readsWhile(() => native.encode({ price: new Money(5) }, 'x'))).toBe(1);
    expect(native.encodeAndRead({ price: new Money(5) }, 'x')).toMatchObject({ value: { price: new Money(5) } });
  });

  it.each(['encode', 'encodeAndRead'] as const)('is refused if its class cannot read it: %s', (method) => {
    expect(() => native[method]({ list: [new Forgotten()] }, 'The result of step "charge"')).toThrow(
      expect.objectContaining({
        code: 'UNSERIALIZABLE',
        message:
          'The result of step "charge" cannot be stored: reading back its text threw TypeError: what is a 1?. ' +
          'Change "from" of each registered class in it to accept the result of its "to".',
        details: { what: 'The result of step "charge"' },
        cause: expect.any(TypeError),
      }),
    );
    expect(() => native.encodeArguments([new Forgotten()], 'x')).toThrow(/cannot be stored: reading back/);
  });
});

describe.each(['synchronously', 'asynchronously'])('a serializer that answers %s', (when) => {
  function codecOf(serializer: Serializer) {
    const { name, stringify, parse } = serializer;
    if (when === 'synchronously') return createCodecs({ serializer }).native;
    const later = {
      name,
      stringify: async (value: unknown) => stringify(value),
      parse: async (text: string) => parse(text),
    };
    return createCodecs({ serializer: later }).native;
  }
  const json = {
    name: 'json',
    stringify: (value: unknown) => JSON.stringify(value),
    parse: JSON.parse as Serializer['parse'],
  };
  const blind: Serializer = {
    ...json,
    parse: (text) => {
      throw new Error(`cannot open ${text}`);
    },
  };

  it('reads each text once before it is stored', async () => {
    let reads = 0;
    const codec = codecOf({ ...json, parse: (text) => [reads++, JSON.parse(text)][1] });
    await codec.encode({ a: 1 }, 'x');
    await codec.encodeArguments([{ a: 1 }], 'x');
    expect(await codec.encodeAndRead({ at: new Date(0) }, 'x')).toMatchObject({
      value: { at: new Date(0).toISOString() },
    });
    expect(reads).toBe(3);
  });

  it.each(['encode', 'encodeAndRead', 'encodeArguments'] as const)(
    'leads to a typed error if it cannot read a text: %s',
    async (method) => {
      await expect(async () => codecOf(blind)[method]([1], 'The input of workflow "w"')).rejects.toMatchObject({
        code: 'UNSERIALIZABLE',
        message: expect.stringMatching(
          /^The input of workflow "w" cannot be stored: reading back .*Change parse of the seria/,
        ),
        details: { what: 'The input of workflow "w"', serializer: 'json' },
      });
    },
  );

  it('leads to a typed error if it does not read arguments as an array', async () => {
    const codec = codecOf({ ...json, parse: () => 5 });
    await expect(async () => codec.encodeArguments([1], 'x')).rejects.toMatchObject({ code: 'UNSERIALIZABLE' });
  });

  it('stores the parts of an error that it can read', async () => {
    const picky = { ...json, parse: (text: string) => (text.includes('secret') ? blind : json).parse(text) };
    const { text, value } = await codecOf(picky).encodeError(Object.assign(new RangeError('no'), { secret: { a: 1 } }));
    expect(value).toBeInstanceOf(RangeError);
    expect(value).toMatchObject({ message: 'no' });
    expect(await codecOf(picky).decodeError(text)).toMatchObject({ name: 'RangeError', message: 'no' });
  });

  it('stores a replacement for an error that it cannot read, and does not quote the error', async () => {
    const { text, value } = await codecOf(blind).encodeError(new Error('the card of Grace'));
    expect(value).toMatchObject({ code: 'UNSERIALIZABLE', message: /could not be stored.*"json" wrote a string/ });
    expect(text).not.toMatch(/Grace/);
    expect(await codecOf(blind).decodeError(text)).toEqual(value);
  });
});

describe('an error', () => {
  const forms = [native, portable].map((codec) => [codec.name, codec] as const);

  it.each(forms)('is encoded together with the error that will be read: %s', (_, codec) => {
    const error = Object.assign(new TypeError('no'), { code: 'E', at: new Date(0) });
    const { text, value } = codec.encodeError(error) as Encoded;
    expect(value).not.toBe(error);
    expect(value).toStrictEqual(codec.decodeError(text));
  });

  it('is stored without the parts that cannot be read', () => {
    const error = Object.assign(new TypeError('no', { cause: new Forgotten() }), {
      code: 'E',
      list: [new Forgotten(), 7],
    });
    const keeping = createCodecs({ errors: { keep: ['list'] } }).native;
    const { value } = keeping.encodeError(error) as Encoded;
    expect(value).toMatchObject({ name: 'TypeError', message: 'no', code: 'E', list: ['[Forgotten]', 7] });
    expect((value as Error).cause).toBe('[Forgotten]');
  });

  it('keeps its texts if its class cannot be read', () => {
    const { value } = native.encodeError(new Grumpy('in any case')) as Encoded;
    expect(value).toBeInstanceOf(Error);
    expect(value).not.toBeInstanceOf(Grumpy);
    expect(value).toMatchObject({ message: 'in any case' });
  });

  it.each(forms)('is stored whatever its value is: %s', (_, codec) => {
    const hostile = new Proxy(new Error('x'), {
      get() {
        throw new Error('do not look');
      },
      ownKeys() {
        throw new Error('do not look');
      },
    });
    for (const thrown of [hostile, new Forgotten(), Object.create(null), Symbol('s'), () => 1, undefined, 5n]) {
      const { text, value } = codec.encodeError(thrown) as Encoded;
      expect(codec.decodeError(text)).toStrictEqual(value);
    }
  });
});
