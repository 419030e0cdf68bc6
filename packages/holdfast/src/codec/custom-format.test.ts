import { describe, expect, it } from 'vitest';
import { createCodecs, type Serializer } from './codecs.js';

const base64: Serializer = {
  name: 'base64',
  stringify: (value) => Buffer.from(JSON.stringify({ value })).toString('base64'),
  parse: (text) => JSON.parse(Buffer.from(text, 'base64').toString()).value,
};
const slow: Serializer = {
  name: 'slow',
  stringify: async (value) => base64.stringify(value),
  parse: async (text) => base64.parse(text),
};

describe('createCodecs', () => {
  it('finds the codec of a row', () => {
    const codecs = createCodecs();
    expect(codecs.native.name).toBe('js_superjson');
    expect(codecs.for(null)).toBe(codecs.native);
    expect(codecs.for('js_superjson')).toBe(codecs.native);
    expect(codecs.for('portable_json')).toBe(codecs.portable);
  });

  it('writes with the custom serializer and still reads the built-in formats', () => {
    const codecs = createCodecs({ serializer: base64 });
    expect(codecs.native.name).toBe('base64');
    expect(codecs.for(null)).toBe(codecs.native);
    expect(codecs.for('base64')).toBe(codecs.native);
    expect(codecs.for('js_superjson').decode('{"json":1,"__dbos_serializer":"superjson"}')).toBe(1);
  });

  it('refuses an unknown format, and names it and the known formats', () => {
    const codecs = createCodecs({ serializer: base64 });
    expect(() => codecs.for('mine-v1')).toThrow(
      'A stored value has the format "mine-v1", but this app reads only js_superjson, portable_json, base64. ' +
        'Launch with the serializer of that name: launch({ serializer }).',
    );
    expect(() => codecs.for('py_pickle')).toThrow(
      expect.objectContaining({ code: 'UNKNOWN_SERIALIZER', message: expect.stringContaining('DBOS for Python') }),
    );
  });

  it.each([
    ['none of its members', 5, 'INVALID_OPTION'],
    ['an empty name', { ...base64, name: '' }, 'INVALID_NAME'],
    ['the name of a built-in format', { ...base64, name: 'portable_json' }, 'INVALID_NAME'],
    ['no stringify', { name: 'x', parse: base64.parse }, 'INVALID_OPTION'],
    ['no parse', { name: 'x', stringify: base64.stringify }, 'INVALID_OPTION'],
  ])('refuses a serializer with %s', (_, serializer, code) => {
    expect(() => createCodecs({ serializer: serializer as Serializer })).toThrow(expect.objectContaining({ code }));
  });
});

describe.each([
  ['sync', base64],
  ['async', slow],
])('a %s serializer', (_, serializer) => {
  const { native } = createCodecs({ serializer });

  it('reads values, arguments and errors as they were', async () => {
    expect(await native.decode(await native.encode({ a: [1] }, 'x'))).toStrictEqual({ a: [1] });
    expect(await native.decodeArguments(await native.encodeArguments([1, 'a'], 'x'))).toStrictEqual([1, 'a']);
    const error = Object.assign(new TypeError('no', { cause: new RangeError('why') }), { code: 'E' });
    const copy = (await native.decodeError((await native.encodeError(error)).text)) as Error;
    expect(copy).toBeInstanceOf(TypeError);
    expect(copy).toMatchObject({ message: 'no', code: 'E', stack: error.stack });
    expect(copy.cause).toBeInstanceOf(RangeError);
    expect(await native.decodeError((await native.encodeError('thrown')).text)).toBe('thrown');
  });

  it('stores an error without the parts that it cannot write', async () => {
    const strict = createCodecs({
      errors: { keep: ['status'] },
      serializer: {
        ...serializer,
        stringify: (value) => {
          if (Object.values(value as object).some((member) => member instanceof Date)) throw new Error('no dates');
          return serializer.stringify(value);
        },
      },
    }).native;
    const { text } = await strict.encodeError(
      Object.assign(new Error('y'), { at: new Date(0), status: { code: 500 } }),
    );
    expect(await strict.decodeError(text)).toMatchObject({ message: 'y', status: { code: 500 }, at: '[Date]' });
  });

  it('leads to a typed error if stringify throws', async () => {
    await expect(async () => native.encode(5n, 'Output of workflow "w"')).rejects.toMatchObject({
      code: 'UNSERIALIZABLE',
      message: expect.stringMatching(/^Output of workflow "w" cannot be stored: the serializer "\w+" threw .*BigInt/),
      cause: expect.any(TypeError),
    });
  });

  it('leads to a typed error if parse throws', async () => {
    await expect(async () => native.decode('?')).rejects.toMatchObject({
      code: 'UNREADABLE_VALUE',
      cause: expect.any(Error),
    });
  });

  it('leads to a typed error if the stored arguments are not an array', async () => {
    const text = await native.encode({}, 'x');
    await expect(async () => native.decodeArguments(text)).rejects.toMatchObject({ code: 'UNREADABLE_VALUE' });
  });
});

it.each([
  ['undefined', () => undefined, /a value of the type undefined instead of a string/],
  ['bytes', () => Buffer.from('a'), /a value of the type object instead of a string/],
  ['a text with NUL', async () => 'a\0', /NUL character/],
  ['a text with half a surrogate pair', () => '\ud800', /half a surrogate pair/],
])('a serializer that returns %s leads to a typed error', async (_, stringify, message) => {
  const { native } = createCodecs({ serializer: { ...base64, stringify: stringify as () => string } });
  await expect(async () => native.encode(1, 'x')).rejects.toMatchObject({
    code: 'UNSERIALIZABLE',
    message: expect.stringMatching(message),
  });
});
