import type { AnyNode, CallExpression, Expression, Identifier, MemberExpression } from 'acorn';

/**
 * Returns the node that was written, without what compilers make of it: calls that name functions (`keepNames` of
 * esbuild, which tsx sets), the way in which CommonJS reaches imports, and `void 0`.
 */
export function withoutMark(node: AnyNode): AnyNode {
  if (isNaming(node)) return withoutMark(node.arguments[0]);
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

/** `__name(fn, "fn");`, which stands behind the declaration of a function. */
export function isNamingStatement(node: AnyNode): boolean {
  return node.type === 'ExpressionStatement' && isNaming(node.expression, 'Identifier');
}

/** `static { __name(this, "Class"); }` */
export function isNamingBlock(node: AnyNode): boolean {
  const [statement, ...others] = node.type === 'StaticBlock' ? node.body : [];
  return (
    statement?.type === 'ExpressionStatement' && others.length === 0 && isNaming(statement.expression, 'ThisExpression')
  );
}

/** `__name(fn, "fn")`. A function `__name` of the user has other arguments. */
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

/** `run` of `(0, import_holdfast.run)(...)`, as esbuild and tsc (`holdfast_1`) call imports. */
function calledImport(callee: Expression): Identifier | undefined {
  if (callee.type !== 'SequenceExpression' || callee.expressions.length !== 2) return undefined;
  const [zero, member] = callee.expressions;
  const isCall = zero !== undefined && isZero(zero) && member && isMemberOfImport(member, /^import_\w+$|_\d+$/);
  return isCall ? member.property : undefined;
}

function isMemberOfImport(node: AnyNode, names: RegExp): node is MemberExpression & { property: Identifier } {
  if (node.type !== 'MemberExpression' || node.computed || node.optional) return false;
  return node.object.type === 'Identifier' && names.test(node.object.name) && node.property.type === 'Identifier';
}

function isZero(node: AnyNode): boolean {
  return node.type === 'Literal' && node.value === 0;
}
