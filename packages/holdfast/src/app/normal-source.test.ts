// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the strings are programs.
import { describe, expect, it } from 'vitest';
import { normalSource } from './normal-source.js';

/** Source code with its types replaced by blanks, as Node does it. `byTsx` is the same code as tsx runs it. */
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

describe('the text that a version is computed from', () => {
  it('is the same whichever tool removes the types', async () => {
    expect(await normalSource(byTsx)).toBe(await normalSource(written));
    expect(await normalSource(byTsx)).not.toBe(byTsx);
  });

  it.each([
    ['comments and whitespace', 'async () => { /* why */ await a(1) // so\n }', 'async()=>{await a(1)}'],
    ['quotes and escapes', `() => ['it\\'s', 'a"b', '\\x41\\u{42}']`, `() => ["it's", "a\\"b", "AB"]`],
    ['line endings in a template', '() => `a\r\nb`', '() => `a\nb`'],
    ['semicolons', '() => { a()\n b() }', '() => { a(); b(); }'],
    ['trailing commas', '() => f(1, [2, 3,], { a, },)', '() => f(1, [2, 3], { a })'],
    ['parentheses around one parameter', 'async x => x', 'async (x) => x'],
    ['how numbers are written', '() => 3_600_000 + 0x10 + 1.50', '() => 36e5 + 16 + 1.5'],
    [
      'parentheses around a type assertion',
      'async () => { const a = (await b   )\n const c = (d    ).e }',
      'async () => {const a = await b;const c = d.e}',
    ],
    [
      'how imports are accessed',
      'async () => { await (0, import_holdfast.run)("a", import_lib.f) }',
      'async () => { await run("a", f) }',
    ],
    ['how imports are called', '() => [(0, import_a.f)?.(1), (0, a_1.sql)`x`]', '() => [f?.(1), sql`x`]'],
    ['how tsc accesses imports', '() => (0, holdfast_1.sleep)(1)', '() => sleep(1)'],
    ['a semicolon after return', '() => { return; }', '() => { return }'],
    ['a semicolon after do and while', '() => { do { a() } while (b); c() }', '() => { do { a() } while (b)\n c() }'],
    [
      'parentheses of new without arguments',
      '() => (new Date).getTime() + (new a.B)',
      '() => new Date().getTime() + new a.B()',
    ],
    [
      'parentheses that a formatter adds',
      'async (a) => !(await a) && ((a % 2) * 3 || (a && 1) || [...(await a)])',
      'async(a)=>!await a&&(a%2*3||a&&1||[...await a])',
    ],
    ['parentheses of a value on separate lines', '() => { return (\n a &&\n b\n) }', '()=>{return a&&b}'],
    [
      'parentheses of a statement after a block',
      '() => { if (a) { b }\n(c     ).d = 1 }',
      '() => { if (a) { b } c.d = 1 }',
    ],
    ['parentheses of a branch', '(a, b) => a ? (b ? 1 : 2) : (b = 3)', '(a, b) => a ? b ? 1 : 2 : b = 3'],
    ['parentheses around a whole optional chain', '(a) => (a?.b     ) ?? 1', '(a) => a?.b ?? 1'],
    ['escapes in a template', '() => `a\\n\u20ac\\`${1}\\u00e9`', '() => `a\n\\u20AC\\`${1}é`'],
    ['whether a string without values is a template', '() => f(`a $ b`)', "() => f('a $ b')"],
    ['concatenated strings', "(a) => a + 'b' + `c${1 + 2}` + 'd`' + `${3}`", '(a) => a + `bc${1 + 2}d\\`${3}`'],
    ['shorthand properties', '(a) => ({ a: a, b: a })', '(a) => ({ a, b: a })'],
    ['strings concatenated after a value', "(a, b) => a + b + 'c' + `d${a}` + 'e'", '(a, b) => a + b + `cd${a}e`'],
    ['quotes around a property name', "() => ({ 'a': 1, 0x10: 2 })", '() => ({ a: 1, 16: 2 })'],
    ['escapes in a name', '(\\u0061b) => ab', '(ab) => \\u{61}b'],
    ['semicolons in a class', '() => class { ; a = 1\n b() {}; }', '() => class { a = 1; b() {} }'],
    [
      'calls of a compiler that name a function',
      'async a() { __name(b, "b"); function b() {} }',
      'async a() { function b() {} }',
    ],
  ])('does not depend on %s', async (_, one, other) => {
    expect(await normalSource(one)).toBe(await normalSource(other));
  });

  it.each([
    ['a string', '() => run("a")', '() => run("b")'],
    ['whitespace in a string', '() => "a b"', '() => "ab"'],
    ['whitespace in a template', '() => `a b`', '() => `a  b`'],
    ['parentheses that group', '(a, b) => (a + b) * 2', '(a, b) => a + b * 2'],
    ['parentheses of a call', '() => { a\n;(b) }', '() => { a(b) }'],
    ['a line break after return', '() => { return\n a }', '() => { return a }'],
    ['a semicolon between return and a value', '() => { return; a }', '() => { return a }'],
    ['an empty loop', '() => { while (a); b() }', '() => { while (a) b() }'],
    ['parentheses that end an optional chain', '(a) => (a?.b).c', '(a) => a?.b.c'],
    ['parentheses around await', 'async (a) => (await a).b', 'async (a) => await a.b'],
    ['parentheses around an object', '() => ({})', '() => {}'],
    ['parentheses around a sequence', '(a) => f((a, 1))', '(a) => f(a, 1)'],
    ['holes in a list', '() => [,]', '() => []'],
    ['whether a value is a name or a string', '(a) => a ? "b" : c', '(a) => a ? b : c'],
    ['a string that looks like a comment', '() => "// a"', '() => "// b"'],
    ['the operand of a division', '(a) => a / 2 // 3\n', '(a) => a / 3'],
    ['a regular expression', '(a) => /a b/.test(a)', '(a) => /a  b/.test(a)'],
    ['a template in a template', '(a) => `${a ? `x` : ""}`', '(a) => `${a ? `y` : ""}`'],
    ['whether new calls the result of a call', '(a) => new (a())()', '(a) => new a()()'],
    ['the operand of ++', '(a, b) => { a\n ++b }', '(a, b) => { a++\n b }'],
    ['arguments of a user function __name', '() => __name(a, b)', '() => a'],
    ['a call of a user function __name', '() => { __name(a, b) }', '() => {}'],
    ['a line break between return and a parenthesis', '() => { return (\n a && b\n) }', '() => { return\n a && b }'],
    ['the argument of a method named like an operator', '(a, b) => a.delete(b).c', '(a, b) => a.delete(b.c)'],
    ['the argument of a function named of', '(a) => of(a).b', '(a) => of(a.b)'],
    ['a division after a property named like an operator', '(a, b) => a.in / b / (a)', '(a, b) => a.in / b / a.b'],
    ['the value of yield', 'function* () { return (yield)[0] }', 'function* () { return yield [0] }'],
    ['a field named get', '() => class { get; a() {} }', '() => class { get a() {} }'],
    ['parentheses in a difference', '(a, b) => 1 - (a + b)', '(a, b) => 1 - a + b'],
    ['parentheses in a product', '(a, b) => a * (b / 2)', '(a, b) => a * b / 2'],
    ['parentheses in a power', '(a) => (-a) ** 2', '(a) => -(a ** 2)'],
    ['parentheses around an awaited value', 'async (a) => await (a || b)', 'async (a) => (await a) || b'],
    ['parentheses in a condition', '(a) => (a ? b : c) ? 1 : 2', '(a) => a ? b : (c ? 1 : 2)'],
    ['parentheses between ?? and ||', '(a) => (a ?? b) || c', '(a) => a ?? (b || c)'],
    ['parentheses in a sum of numbers', '(a) => 1 + 2 + "a"', '(a) => 1 + (2 + "a")'],
    ['parentheses in a sum of strings', "(a) => a * 'b' + 'c'", "(a) => a * ('b' + 'c')"],
    ['arguments of a new object', '(a) => new a().b', '(a) => new a.b()'],
    ['the raw text of a tagged template', '(a) => a`\\x41`', '(a) => a`A`'],
    ['a dollar sign that does not begin a value', '(a) => `$` + `{a}`', '(a) => `${a}`'],
    ['the object of a method call', '(a) => (0, a.b)()', '(a) => (0, c.b)()'],
    ['a property name', '(a) => ({ a: b })', '(a) => ({ b: a })'],
    ['a directive', "() => { 'use strict'; a() }", "() => { ('use strict'); a() }"],
    ['a property named __proto__', '(a) => ({ __proto__: a })', '(a) => ({ __proto__ })'],
    ['an operator that looks like an HTML comment', '(a, b) => a<!--b', '(a, b) => a<!--c'],
    ['the type of a number', '() => 1n', '() => 1'],
    ['an infinite number', '() => 1e400', '() => null'],
    ['private names', 'a() { return this.#b }', 'a() { return this.b }'],
    ['the order of statements', '() => { a(); b() }', '() => { b(); a() }'],
    ['a static block that names another class', '() => class { static { __name(that, "a") } }', '() => class {}'],
  ])('depends on %s', async (_, one, other) => {
    const [read, readOther] = [await normalSource(one), await normalSource(other)];
    expect(read).not.toBe(readOther);
    expect([one, other], 'the text cannot be read').not.toContain(read);
  });

  it('is the source text itself if the parser cannot read it', async () => {
    const decorated = 'class A { @step() async pay() {} }';
    for (const text of ['() => { "open }', '() => `open', 'a § b', decorated, String(Math.max)])
      expect(await normalSource(text)).toBe(text);
  });

  it('can be computed for functions in classes, in objects and on their own', async () => {
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
