import type { AnyNode, Literal, Options, TemplateLiteral } from 'acorn';
import { isNamingBlock, isNamingStatement, withoutMark } from './compiler-marks.js';

/**
 * Returns the program of a function in one form, whoever wrote the text down: a formatter, a comment, or another way of
 * removing the types (Node itself, tsx, esbuild, tsc) makes no new version. The form is the tree of the parser, as JSON.
 *
 * 1. Two texts that become the same must mean the same: an overlooked change would replay old work on new code.
 *    In doubt, the difference stays.
 * 2. The result depends on the program only, not on the release of the parser (see `options` and `fields`). It is a part
 *    of every version that was ever deployed: changing it changes them all.
 * 3. A text that the parser cannot read stays as written: native code, decorators, newer syntax.
 *
 * The parser is loaded here, so that a process that computes no version never loads it.
 */
export async function normalSource(source: string): Promise<string> {
  const { parse } = await import('acorn');
  for (const [text, sourceType] of readings(source)) {
    try {
      return JSON.stringify(treeOf(parse(text, { ...options, sourceType })));
    } catch (error) {
      // The next reading may fit. A RangeError: nesting too deep for the stack.
      if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
    }
  }
  return source;
}

/**
 * The edition of the language is fixed. With 'latest', a new release of the parser would read what was left as written
 * before, and so change versions. A method may use `super` and private names of a class that is not in its text.
 */
const options: Options = { ecmaVersion: 2026, allowSuperOutsideMethod: true, checkPrivateFields: false };

/**
 * The text does not say where the function stands: alone, in an object or in a class. Nor does it say whether its file is
 * a module. Modules come first: a script may read `a<!--b` as a comment and overlook a change there.
 */
function readings(source: string): (readonly [text: string, sourceType: 'module' | 'script'])[] {
  const places = [`(${source}\n)`, `({${source}\n})`, `(class {${source}\n})`];
  return (['module', 'script'] as const).flatMap((type) => places.map((place) => [place, type] as const));
}

/**
 * The fields of nodes that are kept, in this order. It is a list, because a new release of the parser may add fields or
 * reorder them. Positions, `raw` and what follows from other fields are left out. A test fails when the parser has a
 * field that nobody has decided on.
 */
export const fields = [
  ...['kind', 'static', 'async', 'generator', 'computed', 'shorthand', 'method', 'delegate', 'await', 'prefix'],
  ...['optional', 'directive', 'operator', 'name', 'meta', 'property', 'id', 'key', 'superClass', 'params', 'param'],
  ...['label', 'init', 'test', 'update', 'left', 'right', 'object', 'tag', 'quasi', 'callee', 'arguments', 'argument'],
  ...['source', 'options', 'discriminant', 'cases', 'declarations', 'elements', 'properties', 'expression'],
  ...['expressions', 'value', 'block', 'handler', 'finalizer', 'consequent', 'alternate', 'body'],
];

type Tree = { readonly type: string } & Readonly<Record<string, unknown>>;

function treeOf(marked: AnyNode): Tree {
  const node = withoutMark(marked);
  if (node.type === 'Literal') return literal(node);
  if (node.type === 'TemplateLiteral') return textOf(node, 'cooked');
  // A tag sees how its template is written.
  if (node.type === 'TaggedTemplateExpression') return { ...anyTree(node), quasi: textOf(node.quasi, 'raw') };
  if (node.type === 'BinaryExpression' && node.operator === '+') return sum(treeOf(node.left), treeOf(node.right));
  return anyTree(node);
}

function anyTree(node: AnyNode): Tree {
  const found: Readonly<Record<string, unknown>> = { ...node, ...keyOf(node) };
  const tree: Record<string, unknown> & Tree = { type: node.type };
  for (const name of fields) {
    const value = found[name];
    if (value !== undefined && value !== null && value !== false) tree[name] = plain(value);
  }
  return tree;
}

function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((each) => !isNode(each) || !isNothing(each)).map(plain);
  return isNode(value) ? treeOf(value) : value;
}

function isNode(value: unknown): value is AnyNode {
  return typeof value === 'object' && value !== null && 'type' in value;
}

/** Entries in a list of statements, or in a class, that nobody misses. */
function isNothing(entry: AnyNode): boolean {
  return entry.type === 'EmptyStatement' || isNamingStatement(entry) || isNamingBlock(entry);
}

/** `{ a }` is `{ a: a }` and `{ 'a': a }`. But `{ __proto__: a }` sets the prototype, and `{ __proto__ }` does not. */
function keyOf(node: AnyNode): Readonly<Record<string, unknown>> {
  if (!('key' in node) || !('computed' in node) || node.computed) return {};
  const { key } = node;
  if (key.type === 'PrivateIdentifier') return {};
  const name = key.type === 'Identifier' ? key.name : String((key as Literal).value);
  return { key: name, shorthand: 'shorthand' in node && node.shorthand && name === '__proto__' };
}

function literal({ value, regex }: Literal): Tree {
  if (regex) return { type: 'RegExp', pattern: regex.pattern, flags: regex.flags };
  if (typeof value === 'string') return { type: 'Text', parts: [value] };
  return { type: 'Literal', kind: typeof value, value: String(value) };
}

/** A text, or a template: texts and values take turns, from a text to a text. */
interface Text extends Tree {
  readonly parts: readonly unknown[];
}

function textOf({ quasis, expressions }: TemplateLiteral, as: 'raw' | 'cooked'): Text {
  const parts = quasis.flatMap(({ value }, at) => [value[as], ...expressions.slice(at, at + 1).map(treeOf)]);
  return { type: 'Text', parts };
}

/** esbuild writes `'a' + 'b'` as `'ab'`, `x + 'a' + 'b'` as `x + 'ab'`, and joins templates in the same way. */
function sum(left: Tree, right: Tree): Tree {
  if (isText(left) && isText(right)) return joined(left, right);
  const last = left.operator === '+' ? (left.right as Tree) : undefined;
  if (last && isText(last) && isText(right)) return { ...left, right: joined(last, right) };
  return { type: 'BinaryExpression', operator: '+', left, right };
}

function isText(tree: Tree): tree is Text {
  return tree.type === 'Text';
}

function joined({ type, parts }: Text, { parts: [first, ...others] }: Text): Text {
  return { type, parts: [...parts.slice(0, -1), `${parts.at(-1)}${first}`, ...others] };
}
