// biome-ignore-all lint/suspicious/noTemplateCurlyInString: programs as texts.
import { describe, expect, it } from 'vitest';
import { normalSource } from './normal-source.js';

/** As written, with the types blanked out as Node does it, against what tsx runs. */
const written = `async function checkout(order       , opts                    )                   {
  // a comment 'with quotes'
  const total = (order.lines                   ).reduce((a, b) => (a + b.n) * 2, 0)
  const inner = async (x        ) => x * 2;
  function helper   (            value   )    { return (value     ) }
  class Box    { value               = undefined; #p = 1; get() { return this.value  } static make = () => new Box(1) }
  const receipt = await run('charge it\\'s', async () => \`r-\${order .id}-\${(total     )}\`);
  let i = 0
  for (let k = 0; k < limit; k++) { i += k }
  for (const l of order.lines) if (l.n > 1_000) i++
  ++i
  const re = /ab"c\\/[/]/g.test(receipt) ? 'a' : "b";
  if (!receipt) return
  const o = { 'quoted': 1, plain: 2, 'with-dash': 3_600_000, [\`k\`]: 0x10, receipt, nested: { a: 1, }, }
  switch (i) { case 1: return null; default: break }
  try { await run        ("x", () => helper        (1)) } catch { /* nothing */ }
  const [first, ...rest] = [1, 2, 3,]
  const f2 = x => x, f3 = async (y        ,) => ({ y })
  label: while (true) { if (i > 2) break label; else continue label }
  const d = order .lines[0] .n / 2 / 3;
  const answer         = (await run("q", () => ({ ok: true })))
  return { ...o, ok: answer?.ok ?? false, inner: await inner(3), e: "\\u00e9\\n", u: undefined, neg: -1 }
}`;
const byTsx =
  'async function checkout(order,opts){const total=order.lines.reduce((a,b)=>(a+b.n)*2,0);const inner=__name(async x=>x*2,"inner");' +
  'function helper(value){return value}__name(helper,"helper");class Box{static{__name(this,"Box")}value=void 0;#p=1;get(){return this.value}' +
  'static make=__name(()=>new Box(1),"make")}const receipt=await run("charge it\'s",async()=>`r-${order.id}-${total}`);let i=0;for(let k=0;k<limit;k++)' +
  '{i+=k}for(const l of order.lines)if(l.n>1e3)i++;++i;const re=/ab"c\\/[/]/g.test(receipt)?"a":"b";if(!receipt)return;const o={"quoted":1,plain:2,' +
  '"with-dash":36e5,[`k`]:16,receipt,nested:{a:1}};switch(i){case 1:return null;default:break}try{await run("x",()=>helper(1))}catch{}' +
  'const[first,...rest]=[1,2,3];const f2=__name(x=>x,"f2"),f3=__name(async y=>({y}),"f3");label:while(true){if(i>2)break label;else continue label}' +
  'const d=order.lines[0].n/2/3;const answer=await run("q",()=>({ok:true}));return{...o,ok:answer?.ok??false,inner:await inner(3),e:"\\xE9\\n",u:void 0,neg:-1}}';

describe('the text that a version is made of', () => {
  it('is the same whoever removes the types', async () => {
    expect(await normalSource(byTsx)).toBe(await normalSource(written));
    expect(await normalSource(byTsx)).not.toBe(byTsx);
  });

  it.each([
    ['comments and space', 'async () => { /* why */ await a(1) // so\n }', 'async()=>{await a(1)}'],
    ['quotes and escapes', `() => ['it\\'s', 'a"b', '\\x41\\u{42}']`, `() => ["it's", "a\\"b", "AB"]`],
    ['line ends in a template', '() => `a\r\nb`', '() => `a\nb`'],
    ['semicolons', '() => { a()\n b() }', '() => { a(); b(); }'],
    ['trailing commas', '() => f(1, [2, 3,], { a, },)', '() => f(1, [2, 3], { a })'],
    ['brackets around one parameter', 'async x => x', 'async (x) => x'],
    ['how numbers are written', '() => 3_600_000 + 0x10 + 1.50', '() => 36e5 + 16 + 1.5'],
    [
      'brackets that were there for a type',
      'async () => { const a = (await b   )\n const c = (d    ).e }',
      'async () => {const a = await b;const c = d.e}',
    ],
    [
      'how imports are reached',
      'async () => { await (0, import_holdfast.run)("a", import_lib.f) }',
      'async () => { await run("a", f) }',
    ],
    ['how imports are called', '() => [(0, import_a.f)?.(1), (0, a_1.sql)`x`]', '() => [f?.(1), sql`x`]'],
    ['how imports are reached, by tsc', '() => (0, holdfast_1.sleep)(1)', '() => sleep(1)'],
    ['a semicolon after return', '() => { return; }', '() => { return }'],
    ['a semicolon after do and while', '() => { do { a() } while (b); c() }', '() => { do { a() } while (b)\n c() }'],
    [
      'brackets of a new object without arguments',
      '() => (new Date).getTime() + (new a.B)',
      '() => new Date().getTime() + new a.B()',
    ],
    [
      'brackets that a formatter adds',
      'async (a) => !(await a) && ((a % 2) * 3 || (a && 1) || [...(await a)])',
      'async(a)=>!await a&&(a%2*3||a&&1||[...await a])',
    ],
    ['brackets of a value on lines of its own', '() => { return (\n a &&\n b\n) }', '()=>{return a&&b}'],
    [
      'brackets of a statement behind a block',
      '() => { if (a) { b }\n(c     ).d = 1 }',
      '() => { if (a) { b } c.d = 1 }',
    ],
    ['brackets of a branch', '(a, b) => a ? (b ? 1 : 2) : (b = 3)', '(a, b) => a ? b ? 1 : 2 : b = 3'],
    ['brackets of a chain that ends with them', '(a) => (a?.b     ) ?? 1', '(a) => a?.b ?? 1'],
    ['how a template is escaped', '() => `a\\n\u20ac\\`${1}\\u00e9`', '() => `a\n\\u20AC\\`${1}é`'],
    ['whether a text without values is a template', '() => f(`a $ b`)', "() => f('a $ b')"],
    ['texts that are put together', "(a) => a + 'b' + `c${1 + 2}` + 'd`' + `${3}`", '(a) => a + `bc${1 + 2}d\\`${3}`'],
    ['names that are values of themselves', '(a) => ({ a: a, b: a })', '(a) => ({ a, b: a })'],
    [
      'texts that are put together behind a value',
      "(a, b) => a + b + 'c' + `d${a}` + 'e'",
      '(a, b) => a + b + `cd${a}e`',
    ],
    ['quotes around the name of a property', "() => ({ 'a': 1, 0x10: 2 })", '() => ({ a: 1, 16: 2 })'],
    ['how a name is escaped', '(\\u0061b) => ab', '(ab) => \\u{61}b'],
    ['semicolons in a class', '() => class { ; a = 1\n b() {}; }', '() => class { a = 1; b() {} }'],
    [
      'names that a compiler gives to a method',
      'async a() { __name(b, "b"); function b() {} }',
      'async a() { function b() {} }',
    ],
  ])('does not depend on %s', async (_, one, other) => {
    expect(await normalSource(one)).toBe(await normalSource(other));
  });

  it.each([
    ['a word', '() => run("a")', '() => run("b")'],
    ['case in a text', '() => "a b"', '() => "ab"'],
    ['space in a template', '() => `a b`', '() => `a  b`'],
    ['brackets that bind', '(a, b) => (a + b) * 2', '(a, b) => a + b * 2'],
    ['brackets of a call', '() => { a\n;(b) }', '() => { a(b) }'],
    ['the end of a return', '() => { return\n a }', '() => { return a }'],
    ['the end of a return on one line', '() => { return; a }', '() => { return a }'],
    ['an empty loop', '() => { while (a); b() }', '() => { while (a) b() }'],
    ['brackets that end a chain', '(a) => (a?.b).c', '(a) => a?.b.c'],
    ['brackets around await', 'async (a) => (await a).b', 'async (a) => await a.b'],
    ['brackets around an object', '() => ({})', '() => {}'],
    ['brackets around a list', '(a) => f((a, 1))', '(a) => f(a, 1)'],
    ['holes in a list', '() => [,]', '() => []'],
    ['a name and a text', '(a) => a ? "b" : c', '(a) => a ? b : c'],
    ['what looks like a comment', '() => "// a"', '() => "// b"'],
    ['what follows a division', '(a) => a / 2 // 3\n', '(a) => a / 3'],
    ['a regular expression', '(a) => /a b/.test(a)', '(a) => /a  b/.test(a)'],
    ['a template in a template', '(a) => `${a ? `x` : ""}`', '(a) => `${a ? `y` : ""}`'],
    ['new and a call', '(a) => new (a())()', '(a) => new a()()'],
    ['steps of ++', '(a, b) => { a\n ++b }', '(a, b) => { a++\n b }'],
    ['arguments of __name of the user', '() => __name(a, b)', '() => a'],
    ['a call of __name of the user', '() => { __name(a, b) }', '() => {}'],
    ['the end of a return before a bracket', '() => { return (\n a && b\n) }', '() => { return\n a && b }'],
    ['what a method with the name of an operator gets', '(a, b) => a.delete(b).c', '(a, b) => a.delete(b.c)'],
    ['what a function called of gets', '(a) => of(a).b', '(a) => of(a.b)'],
    ['a division by what an operator is called', '(a, b) => a.in / b / (a)', '(a, b) => a.in / b / a.b'],
    ['what is yielded', 'function* () { return (yield)[0] }', 'function* () { return yield [0] }'],
    ['a field called get', '() => class { get; a() {} }', '() => class { get a() {} }'],
    ['brackets of a difference', '(a, b) => 1 - (a + b)', '(a, b) => 1 - a + b'],
    ['brackets of a product', '(a, b) => a * (b / 2)', '(a, b) => a * b / 2'],
    ['brackets of a power', '(a) => (-a) ** 2', '(a) => -(a ** 2)'],
    ['brackets of what is awaited', 'async (a) => await (a || b)', 'async (a) => (await a) || b'],
    ['brackets of a condition', '(a) => (a ? b : c) ? 1 : 2', '(a) => a ? b : (c ? 1 : 2)'],
    ['brackets of two kinds of or', '(a) => (a ?? b) || c', '(a) => a ?? (b || c)'],
    ['brackets of a sum that is no text', '(a) => 1 + 2 + "a"', '(a) => 1 + (2 + "a")'],
    ['brackets of a sum of texts', "(a) => a * 'b' + 'c'", "(a) => a * ('b' + 'c')"],
    ['arguments of a new object', '(a) => new a().b', '(a) => new a.b()'],
    ['what a tag is given', '(a) => a`\\x41`', '(a) => a`A`'],
    ['a dollar sign that begins no value', '(a) => `$` + `{a}`', '(a) => `${a}`'],
    ['what a method is called of', '(a) => (0, a.b)()', '(a) => (0, c.b)()'],
    ['a label', '(a) => ({ a: b })', '(a) => ({ b: a })'],
    ['a directive', "() => { 'use strict'; a() }", "() => { ('use strict'); a() }"],
    ['a prototype', '(a) => ({ __proto__: a })', '(a) => ({ __proto__ })'],
    ['what looks like a comment of a web page', '(a, b) => a<!--b', '(a, b) => a<!--c'],
    ['the kind of a number', '() => 1n', '() => 1'],
    ['a number beyond all others', '() => 1e400', '() => null'],
    ['private names', 'a() { return this.#b }', 'a() { return this.b }'],
    ['the order of statements', '() => { a(); b() }', '() => { b(); a() }'],
    ['a block that names another class', '() => class { static { __name(that, "a") } }', '() => class {}'],
  ])('depends on %s', async (_, one, other) => {
    const [read, readOther] = [await normalSource(one), await normalSource(other)];
    expect(read).not.toBe(readOther);
    expect([one, other], 'a text that cannot be read').not.toContain(read);
  });

  it('is the text itself where it cannot be read', async () => {
    const decorated = 'class A { @step() async pay() {} }';
    for (const text of ['() => { "open }', '() => `open', 'a § b', decorated, String(Math.max)])
      expect(await normalSource(text)).toBe(text);
  });

  it('can be made of functions wherever they stand', async () => {
    class Desk extends Object {
      static async open() {}
      async *[Symbol.iterator]() {}
      #secret = 1;
      async pay(a: number) {
        return this.#secret + a;
      }
      late = async () => [super.toString(), this.#secret];
      get(a: number) {
        return super.toString() + a;
      }
    }
    const literal = { async 'quoted name'() {}, async async() {}, *static() {}, 1() {}, of: async (of: number) => of };
    const desk = new Desk();
    const { pay, get, late } = desk;
    const own = [Desk, Desk.open, desk[Symbol.iterator], pay, get, late, ...Object.values(literal)];
    const sloppy = ['function (a) { with (a) return b }', '(await) => await', 'async #a() { return #a in this }'];
    const texts = [...own.map(String), ...sloppy, '() => import.meta.url', 'get a() { return 1 }', 'set a(b) {}'];
    for (const text of texts) expect(await normalSource(text), text).toMatch(/^\{"type":"Program"/);
  });
});
