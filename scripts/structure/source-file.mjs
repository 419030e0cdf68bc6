/**
 * Reads from a source file what the structure rules check: its imports, its texts and its functions.
 *
 * A real parser reads the file, so comments and strings are never mistaken for code. The rules beside this file decide
 * what is allowed.
 */
import { readFileSync } from 'node:fs';
import { parseSync } from 'oxc-parser';

/**
 * @typedef {{ specifier: string, line: number }} Import
 * @typedef {{ text: string, line: number }} Text
 * @typedef {{ name: string, line: number, length: number }} FunctionSpan
 * @typedef {{ path: string, lineCount: number, imports: Import[], texts: Text[], functions: FunctionSpan[],
 *   problem: Text | null }} SourceFile `path` is relative to the root of the workspace, with forward slashes
 */

const functionTypes = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);
const importTypes = new Set([
  'ImportDeclaration',
  'ExportNamedDeclaration',
  'ExportAllDeclaration',
  'ImportExpression',
  'TSImportType',
]);
const suiteNames = /^(describe\w*|suite)$/;
const testNames = /^(it|test|describe\w*|suite)$/;

/** @returns {SourceFile} */
export function readSourceFile(absolutePath, path) {
  const source = readFileSync(absolutePath, 'utf8');
  const { program, errors } = parseSync(path, source);
  const lineAt = lineCounter(source);
  const file = { path, lineCount: countLines(source), imports: [], texts: [], functions: [], problem: null };
  if (errors.length > 0) file.problem = { text: errors[0].message, line: lineAt(errors[0].labels[0]?.start ?? 0) };
  walk(program, [], (node, ancestors) => {
    collectImport(node, lineAt, file.imports);
    collectText(node, lineAt, file.texts);
    collectFunction(node, ancestors, lineAt, file.functions);
  });
  return file;
}

function countLines(source) {
  return source.split('\n').length - (source.endsWith('\n') ? 1 : 0);
}

/** Returns a function that maps an offset in the source to its line, counted from 1. */
function lineCounter(source) {
  const starts = [0];
  for (let at = source.indexOf('\n'); at >= 0; at = source.indexOf('\n', at + 1)) starts.push(at + 1);
  return (offset) => {
    let low = 0;
    let high = starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= offset) low = middle;
      else high = middle;
    }
    return low + 1;
  };
}

/** Visits every node, parents first. The last of `ancestors` is the parent. */
function walk(node, ancestors, visit) {
  visit(node, ancestors);
  const path = [...ancestors, node];
  for (const child of children(node)) walk(child, path, visit);
}

function children(node) {
  return Object.values(node)
    .flat()
    .filter((value) => typeof value?.type === 'string');
}

/** Collects every reference to a module: import, export from, import(), import type, require(), require.resolve(). */
function collectImport(node, lineAt, imports) {
  let target = null;
  if (importTypes.has(node.type)) target = node.source;
  else if (node.type === 'TSExternalModuleReference') target = node.expression;
  else if (node.type === 'CallExpression' && calleeName(node) === 'require') target = node.arguments[0];
  if (typeof target?.value === 'string') imports.push({ specifier: target.value, line: lineAt(target.start) });
}

function collectText(node, lineAt, texts) {
  if (node.type === 'Literal' && typeof node.value === 'string') {
    texts.push({ text: node.value, line: lineAt(node.start) });
  }
  if (node.type === 'TemplateLiteral') {
    const text = node.quasis.map((quasi) => quasi.value.cooked ?? quasi.value.raw).join('hole');
    texts.push({ text, line: lineAt(node.start) });
  }
}

/** A function that lists tests may have any length; each test in it is checked separately. */
function collectFunction(node, ancestors, lineAt, functions) {
  if (!functionTypes.has(node.type) || !node.body || listsTests(node, ancestors.at(-1))) return;
  const line = lineAt(node.start);
  functions.push({ name: nameOf(node, ancestors), line, length: lineAt(node.end - 1) - line + 1 });
}

function listsTests(node, parent) {
  if (parent?.type === 'CallExpression' && parent.callee !== node && suiteNames.test(calleeName(parent))) return true;
  return ownCalls(node.body).some((call) => testNames.test(calleeName(call)));
}

/** Returns the calls that a function makes itself, without the calls of functions inside it. */
function ownCalls(node) {
  const calls = node.type === 'CallExpression' ? [node] : [];
  const inside = children(node).filter((child) => !functionTypes.has(child.type));
  return calls.concat(inside.flatMap(ownCalls));
}

/** Returns the first name of the callee: `it` for it(), it.each(table)() and it.skipIf(reason)(). */
function calleeName(call) {
  let callee = call.callee;
  while (callee) {
    if (callee.type === 'Identifier') return callee.name;
    callee = callee.callee ?? callee.tag ?? callee.object;
  }
  return '';
}

function nameOf(node, ancestors) {
  const parent = ancestors.at(-1);
  const own = node.id ?? parent?.key ?? (parent?.type === 'VariableDeclarator' ? parent.id : null);
  if (own?.name) return own.name;
  const title = parent?.type === 'CallExpression' ? parent.arguments.find((a) => typeof a.value === 'string') : null;
  if (title) return `${calleeName(parent)} '${title.value}'`;
  return 'anonymous function';
}
