import type { AnyNode, Literal, Options, TemplateLiteral } from 'acorn';
import { isNamingBlock, isNamingStatement, withoutMark } from './compiler-marks.js';

/**
 * Returns the source code of a function in a normal form: the syntax tree of the parser, as JSON. A formatter, a
 * comment, or another tool that removes the types (Node itself, tsx, esbuild, tsc) must not make a new version.
 *
 * 1. Two texts with the same normal form must mean the same. Otherwise old work would be replayed on changed code. In
 *    doubt, a difference stays in the normal form.
 * 2. The result depends only on the program, not on the release of the parser (see `options` and `fields`). The result
 *    is part of every deployed version, so a change of the normal form changes them all.
 * 3. A text that the parser cannot read stays unchanged: native code, decorators, newer syntax.
 *
 * The parser is imported here, so a process that computes no version never loads it.
 */
export async function normalSource(source: string): Promise<string> {
  const { parse } = await import('acorn');
  for (const [text, sourceType] of readings(source)) {
    try {
      return JSON.stringify(treeOf(parse(text, { ...options, sourceType })));
    } catch (error) {
      // The next reading may succeed. A RangeError means that the nesting is too deep for the stack.
      if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
    }
  }
  return source;
}

/**
 * The edition of the language is fixed. With 'latest', a new release of the parser could read texts that stayed
 * unchanged before, and versions would change. The other options allow methods: a method may use `super` and private
 * names of a class that is not in its text.
 */
const options: Options = { ecmaVersion: 2026, allowSuperOutsideMethod: true, checkPrivateFields: false };

/**
 * Returns the ways to read a text. The text of a function does not say whether the function stands alone, in an object
 * or in a class, or whether its file is a module. Modules come first: a script reads `<!--b` in `a<!--b` as a comment,
 * so a change of `b` would be missed.
 */
function readings(source: string): (readonly [text: string, sourceType: 'module' | 'script'])[] {
  const places = [`(${source}\n)`, `({${source}\n})`, `(class {${source}\n})`];
  return (['module', 'script'] as const).flatMap((type) => places.map((place) => [place, type] as const));
}

/**
 * The fields of nodes that are kept, in this order. The list is fixed, because a new release of the parser may add or
 * reorder fields. Positions, `raw` and fields that follow from others are left out. A test fails if the parser has a
 * field that is neither in this list nor left out on purpose.
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
  // The tag function receives the raw text of its template.
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

/** Returns true for entries of a statement list or a class that have no meaning. */
function isNothing(entry: AnyNode): boolean {
  return entry.type === 'EmptyStatement' || isNamingStatement(entry) || isNamingBlock(entry);
}

/**
 * Treats `{ a }`, `{ a: a }` and `{ 'a': a }` as equal. But `{ __proto__: a }` sets the prototype, and `{ __proto__ }`
 * does not.
 */
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

/** A string or a template: strings and values alternate, and the first and last part are strings. */
interface Text extends Tree {
  readonly parts: readonly unknown[];
}

function textOf({ quasis, expressions }: TemplateLiteral, as: 'raw' | 'cooked'): Text {
  const parts = quasis.flatMap(({ value }, at) => [value[as], ...expressions.slice(at, at + 1).map(treeOf)]);
  return { type: 'Text', parts };
}

/**
 * Joins strings as esbuild does: it writes `'a' + 'b'` as `'ab'`, `x + 'a' + 'b'` as `x + 'ab'`, and joins templates in
 * the same way.
 */
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
