// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the strings are programs.
import { createHash } from 'node:crypto';
import { parse } from 'acorn';
import { describe, expect, it } from 'vitest';
import { fields, normalSource } from './normal-source.js';

/** Functions that together contain every kind of node. */
const everything = [
  `async function* all({ a, b: [c = 1, , ...d], ...e }, f = new.target, ...g) {
    'use a directive';
    label: for (let i = 0, j; i < 3; i++) { if (i) continue label; else break label; }
    for (const k in e) ; for (var l of g) ; for await (const m of d) yield* m;
    while (a) do { debugger } while (!b, c)
    switch (a) { case 1: default: throw { a, 'b': null, [c]: 0x10, get d() { return 1n }, set d(v) {}, async *e() {}, ...f } }
    try { await (yield a) } catch { return } finally { a?.b?.[c]?.(...d) }
    try { } catch ({ message }) { delete a.b; typeof a; void 0; void f(); -a; a--; ++a; }
    return [a ?? b, , a && b || c, a ? b : c, (a, b), a **= b, a = b + 'c' + \`d\${e}\`, f\`g\${1}\\u\`, /h/gi, new Date, true, import('x', {})];
  }`,
  'class A extends B { static #a = 1; b; static { this.#a = #a in this } constructor() { super(super.c) } get [d]() {} static async *e() {} }',
  '() => import.meta.url',
  'function (a) { with (a) b }',
  'async (a) => { await using b = a; using c = b; }',
];

describe('a new release of the parser', () => {
  /** Fields that `fields` leaves out: positions, fields that follow from others, and fields with code of their own. */
  const leftOut = 'type start end sourceType raw bigint regex quasis tail cooked specifiers'.split(' ');

  it('has no field that is neither kept nor left out on purpose', () => {
    const known = new Set([...fields, ...leftOut]);
    const unknown = new Set<string>();
    const visit = (node: object): void => {
      for (const [name, value] of Object.entries(node)) {
        if ('type' in node && !known.has(name)) unknown.add(name);
        if (typeof value === 'object' && value !== null && !(value instanceof RegExp)) visit(value);
      }
    };
    for (const text of everything)
      visit(parse(`(${text})`, { ecmaVersion: 2026, sourceType: text.includes('with') ? 'script' : 'module' }));
    expect([...unknown]).toEqual([]);
  });

  it('does not change versions', async () => {
    const hash = createHash('sha256');
    for (const text of everything) {
      const read = await normalSource(text);
      expect(read).not.toBe(text);
      hash.update(read);
    }
    // A new hash here means a new version of every app, so an upgrade would strand unfinished work.
    expect(hash.digest('hex').slice(0, 16)).toBe('8818965062d2903d');
  });
});
