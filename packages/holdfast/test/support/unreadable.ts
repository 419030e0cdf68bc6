import { registerClass, type Serializer } from '../../src/index.js';

/** A class that can be stored but not read: its `from` throws, as after a forgotten migration of its fields. */
class Receipt {
  constructor(readonly number: number) {}
}
registerClass(Receipt, {
  name: 'UnreadableReceipt',
  to: ({ number }) => ({ number }),
  from: () => {
    throw new Error('a receipt needs a currency');
  },
});

function stringify(value: unknown): string {
  return JSON.stringify(value) ?? 'null';
}

function parse(text: string): unknown {
  if (text.includes('"secret"')) throw new Error('the key to read this is missing');
  return JSON.parse(text);
}

/** Ways to write a value that cannot be read: the serializer (if it is not the default one) and the value. */
const unreadables: Readonly<
  Record<string, { readonly launch: { readonly serializer?: Serializer }; readonly value: () => unknown }>
> = {
  'a class whose "from" throws': { launch: {}, value: () => ({ receipt: new Receipt(7) }) },
  'a serializer whose parse throws': {
    launch: { serializer: { name: 'one-way', stringify, parse } },
    value: () => ({ secret: 7 }),
  },
  'an async serializer whose parse rejects': {
    launch: {
      serializer: {
        name: 'one-way',
        stringify: async (value) => stringify(value),
        parse: async (text) => parse(text),
      },
    },
    value: () => ({ secret: 7 }),
  },
};

export const unreadableKinds: readonly string[] = Object.keys(unreadables);

export function unreadable(kind: string) {
  return unreadables[kind] as (typeof unreadables)[string];
}
