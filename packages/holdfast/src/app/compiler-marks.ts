import type { AnyNode, CallExpression, Expression, Identifier, ImportExpression, MemberExpression } from 'acorn';

/**
 * Returns the node as the author wrote it, without the changes that compilers make: calls that name functions
 * (`keepNames` of esbuild, which tsx sets), the way in which CommonJS accesses imports, the addition of tsx to
 * `import()`, and `void 0`.
 */
export function withoutMark(node: AnyNode): AnyNode {
  if (isNaming(node)) return withoutMark(node.arguments[0]);
  const imported = importBehind(node);
  if (imported) return imported;
  if (isMemberOfImport(node, /^import_\w+$/)) return node.property;
  if (node.type === 'UnaryExpression' && node.operator === 'void' && isZero(node.argument)) {
    return { type: 'Identifier', name: 'undefined', start: node.start, end: node.end };
  }
  if (node.type === 'CallExpression' && node.callee.type !== 'Super') {
    return { ...node, callee: calledImport(node.callee) ?? node.callee };
  }
  if (node.type === 'TaggedTemplateExpression') return { ...node, tag: calledImport(node.tag) ?? node.tag };
  return node;
}

/** Detects `__name(fn, "fn");`, which compilers add after the declaration of a function. */
export function isNamingStatement(node: AnyNode): boolean {
  return node.type === 'ExpressionStatement' && isNaming(node.expression, 'Identifier');
}

/** Detects `static { __name(this, "Class"); }`. */
export function isNamingBlock(node: AnyNode): boolean {
  const [statement, ...others] = node.type === 'StaticBlock' ? node.body : [];
  return (
    statement?.type === 'ExpressionStatement' && others.length === 0 && isNaming(statement.expression, 'ThisExpression')
  );
}

/** Detects `__name(fn, "fn")`. A user's own function `__name` has other arguments. */
function isNaming(
  node: AnyNode,
  named?: 'Identifier' | 'ThisExpression',
): node is CallExpression & { arguments: [Expression, Expression] } {
  if (node.type !== 'CallExpression' || node.arguments.length !== 2) return false;
  const [fn, name] = node.arguments;
  const isCall = node.callee.type === 'Identifier' && node.callee.name === '__name' && fn?.type !== 'SpreadElement';
  const isName = name?.type === 'Literal' && typeof name.value === 'string';
  return isCall && isName && (named === undefined || fn?.type === named);
}

/**
 * Returns `run` for `(0, import_holdfast.run)(...)`, the form in which esbuild and tsc (`holdfast_1`) call imports.
 */
function calledImport(callee: Expression): Identifier | undefined {
  if (callee.type !== 'SequenceExpression' || callee.expressions.length !== 2) return undefined;
  const [zero, member] = callee.expressions;
  const isCall = zero !== undefined && isZero(zero) && member && isMemberOfImport(member, /^import_\w+$|_\d+$/);
  return isCall ? member.property : undefined;
}

/**
 * Returns `import(x)` for `import(x).then(m => ...)`. tsx writes every `import()` in this form, to unwrap modules
 * compiled to CommonJS.
 */
function importBehind(node: AnyNode): ImportExpression | undefined {
  if (node.type !== 'CallExpression' || node.callee.type !== 'MemberExpression') return undefined;
  const { object, property, computed } = node.callee;
  const isThen = object.type === 'ImportExpression' && !computed && property.type === 'Identifier';
  if (!isThen || property.name !== 'then' || node.arguments.length !== 1) return undefined;
  const [fn] = node.arguments;
  return fn && isUnwrapping(fn) ? object : undefined;
}

/**
 * Detects this function, with any variable names:
 * `m => { const d = "default"; return m[d] && typeof m[d] == "object" && "__esModule" in m[d] ? m[d] : m }`.
 */
function isUnwrapping(fn: AnyNode): boolean {
  if (fn.type !== 'ArrowFunctionExpression' || fn.async || fn.body.type !== 'BlockStatement') return false;
  const [[module], [declared, returned]] = [fn.params, fn.body.body];
  if (module?.type !== 'Identifier' || fn.params.length !== 1 || fn.body.body.length !== 2) return false;
  const isConstant = declared?.type === 'VariableDeclaration' && declared.declarations.length === 1;
  const [constant] = isConstant ? declared.declarations : [];
  if (constant?.id.type !== 'Identifier' || !constant.init || sourceOf(constant.init) !== '"default"') return false;
  if (returned?.type !== 'ReturnStatement' || !returned.argument) return false;
  const member = `${module.name}[${constant.id.name}]`;
  const expected = `(((${member}&&(typeof ${member}=="object"))&&("__esModule"in${member}))?${member}:${module.name})`;
  return sourceOf(returned.argument) === expected;
}

/**
 * Returns the source text of a node, with parentheses around each operation. Supports only the nodes of the function
 * that {@link isUnwrapping} detects.
 */
function sourceOf(node: AnyNode): string {
  if (node.type === 'Identifier') return node.name;
  if (node.type === 'Literal') return JSON.stringify(node.value) ?? '';
  if (node.type === 'MemberExpression' && node.computed && !node.optional)
    return `${sourceOf(node.object)}[${sourceOf(node.property)}]`;
  if (node.type === 'UnaryExpression') return `${node.operator} ${sourceOf(node.argument)}`;
  if (node.type === 'BinaryExpression' || node.type === 'LogicalExpression') {
    return `(${sourceOf(node.left)}${node.operator}${sourceOf(node.right)})`;
  }
  if (node.type !== 'ConditionalExpression') return '?';
  return `(${sourceOf(node.test)}?${sourceOf(node.consequent)}:${sourceOf(node.alternate)})`;
}

function isMemberOfImport(node: AnyNode, names: RegExp): node is MemberExpression & { property: Identifier } {
  if (node.type !== 'MemberExpression' || node.computed || node.optional) return false;
  return node.object.type === 'Identifier' && names.test(node.object.name) && node.property.type === 'Identifier';
}

function isZero(node: AnyNode): boolean {
  return node.type === 'Literal' && node.value === 0;
}
