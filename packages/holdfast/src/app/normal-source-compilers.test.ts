// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the strings are programs.
import { type TransformOptions, transformSync } from 'esbuild';
import { describe, expect, it } from 'vitest';
import { normalSource } from './normal-source.js';

/**
 * Ordinary workflow code as Node runs it: types are replaced by blanks, and parentheses are where a formatter puts
 * them.
 */
const written = `
import { approval, charge, run, sleep } from './lib.js';
async function checkout(order       , options                      ) {
  const startedAt = new Date();
  const seen              = new Set        ();
  if (!(await run('check stock', () => order.lines.every((line) => line.n > 0)))) return { ok: false }         ;
  const isBig = (order.total > 1_000 && order.country === 'DE') || order.total > 5_000;
  const first = (await run('first', () => 1)) + 1;
  const all = [...(await run('all', async () => order.lines))];
  const note = (order.notes?.[0]       ) ?? ('none'          );
  const label = (order.country === 'DE') ? 'Inland' : 'Ausland';
  const mail = \`Dear \${order.customer?.email ?? 'customer'},\\n\\nyour order costs \${order.total} € – naïve\\t\${\`\${label}\`}\`;
  const raw = String.raw\`C:\\new\\\${order.id}\`;
  const text = 'one line, ' + 'and another: ' + \`order \${order.id} \` + \`of \${startedAt.getTime()}.\`;
  const longAgo = new Date(0).getTime() + (order.total * 2) / 3;
  async function* pages     (items     , size        )                       {
    for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
  }
  for await (const page of pages(all, 10)) for (const line of page           ) seen.add(line.sku);
  let i = 0;
  do { i++; } while (i < 3);
  (seen       ).mark = true;
  if (seen.size > 2) {
    seen.delete(note);
  }
  (order       ).note = note;
  class Cart {
    #lines = [];
    total = 0;
    add(line      ) { this.#lines.push(line); return this; }
  }
  try {
    await Promise.all([run('a', () => charge(order)), sleep('1s')]);
  } catch (error) {
    if ((error                    ).code === 'E' || !(error instanceof Error)) throw new Error('failed', { cause: error });
  }
  const answer = await approval.receive({ timeout: '1d' });
  const { id, ...rest } = order                ;
  return (
    answer !== null &&
    typeof (rest       ) === 'object' &&
    { mail, raw, text, first, label, isBig, longAgo, cart: new Cart(), note, id, run, sizes: [i, seen.size] }
  );
}`;

const compilers: readonly (readonly [string, TransformOptions])[] = [
  ['esbuild', { format: 'esm' }],
  ['esbuild, as CommonJS', { format: 'cjs' }],
  ['esbuild, without whitespace', { format: 'esm', minifyWhitespace: true }],
  ['esbuild, with UTF-8 output', { format: 'esm', charset: 'utf8' }],
  ['tsx', { format: 'esm', minifyWhitespace: true, keepNames: true, charset: 'utf8' }],
  ['tsx, as CommonJS', { format: 'cjs', minifyWhitespace: true, keepNames: true }],
];

/** The source text of the function, as the running program would return it. */
function textOf(code: string): string {
  const program = code.replace(/^import .*$/m, '').replace(/import\s*\{[^}]*\}\s*from\s*"[^"]*";?/, '');
  const checkout: unknown = new Function('require', 'module', `${program}\n;return checkout`)(() => ({}), {});
  return String(checkout);
}

describe('the text that a version is computed from', () => {
  it.each(compilers)('is the same after compilation by %s', async (_, options) => {
    const { code } = transformSync(written, { loader: 'js', target: 'node20', ...options });
    expect(await normalSource(textOf(code))).toBe(await normalSource(textOf(written)));
  });

  // This is the output of tsx 4.23. Other releases use other names, because the minifier of tsx chooses them.
  it.each(['s', 'module'])('is the same with the addition of tsx to import(), if it calls the module %s', async (m) => {
    const added = `.then(${m}=>{const e="default";return ${m}[e]&&typeof ${m}[e]=="object"&&"__esModule"in ${m}[e]?${m}[e]:${m}})`;
    const code = (tail: string) =>
      `async (x) => { const { a } = await import(x)${tail}; return import('y')${tail}.then(a) }`;
    const normal = await normalSource(code(''));
    expect(await normalSource(code(added))).toBe(normal);
    const others = ['"default"', '&&typeof', '"object"', 'in ', '?', ':', '=>'];
    const changed = ['"other"', '||typeof', '"function"', 'instanceof ', '&&1?', '[e]:', '=>undefined==='];
    const texts = others.map((from, at) => added.replace(from, changed[at] ?? ''));
    for (const tail of [
      ...texts,
      added.replace('then', 'finally'),
      added.replace('then(', 'then(1,'),
      '.then((m) => m.default)',
    ]) {
      expect(await normalSource(code(tail)).catch(() => 'not readable'), tail).not.toBe(normal);
    }
  });

  it('changes with each small change of meaning', async () => {
    const original = await normalSource(textOf(written));
    const changes = [
      ["'check stock'", "'check  stock'"],
      ['!(await run(', '(await run('],
      ["order.country === 'DE') || order.total", "order.country === 'DE' || order.total)"],
      ['line.n > 0', 'line.n >= 0'],
      ['(order.total * 2) / 3', 'order.total * (2 / 3)'],
      ['and another: ', 'and another:'],
      ['costs ${order.total}', 'costs  ${order.total}'],
      ['String.raw`C:\\new\\${order.id}`', '`C:\\new\\${order.id}`'],
      ['seen.delete(note)', 'seen.delete(note).size'],
      ['new Cart()', 'new Cart(1)'],
      ['new Cart()', 'Cart'],
      ['return (\n    answer', 'return\n    (answer'],
      ["sleep('1s')", "sleep('2s')"],
      ["(await run('first', () => 1)) + 1", "await run('first', () => 1 + 1)"],
    ] as const;
    for (const [from, to] of changes) {
      expect(written, from).toContain(from);
      expect(await normalSource(textOf(written.replace(from, to))), from).not.toBe(original);
    }
  });
});
