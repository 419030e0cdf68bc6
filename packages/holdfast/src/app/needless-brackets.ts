import type { Token } from './source-tokens.js';

/**
 * Removes brackets that change nothing: those around a type assertion, as in `(order as Order).id`, and those that a
 * formatter adds, as in `!(await paid())` and `(a && b) || c`. Compilers print neither.
 *
 * **Invariant:** a pair goes only if the rest is still read in the same way. In doubt it stays.
 */
export function withoutNeedlessBrackets(tokens: readonly Token[]): Token[] {
  const needless = new Set<number>();
  const open: number[] = [];
  /** The end of the last head of a statement, as in `if (...)`, and of the last block behind such a head. */
  let [endOfHead, endOfBlock] = [-1, -1];
  tokens.forEach(({ text }, at) => {
    if (text === '(' || text === '{') open.push(at);
    if (text !== ')' && text !== '}') return;
    const from = open.pop();
    if (from === undefined) return;
    if (text === '}') {
      if (from - 1 === endOfHead || /^(else|try|finally)$/.test(textAt(tokens, from - 1))) endOfBlock = at;
      return;
    }
    if (isHead(tokens, from)) endOfHead = at;
    const pair = {
      from,
      to: at,
      isInForHead: isHead(tokens, open.at(-1), /^for$/),
      isBehindBlock: from - 1 === endOfBlock,
    };
    if (isNeedless(tokens, pair, needless)) needless.add(from).add(at);
  });
  // `return (` and a new line is no `return` on a line of its own.
  const inPlace = tokens.map((token, at) =>
    needless.has(at - 1) && textAt(tokens, at - 1) === '(' ? { ...token, afterNewline: false } : token,
  );
  return inPlace.filter((_, at) => !needless.has(at));
}

interface Pair {
  readonly from: number;
  readonly to: number;
  readonly isInForHead: boolean;
  /** The brackets begin a statement, because the one before them has ended. */
  readonly isBehindBlock: boolean;
}

function isHead(tokens: readonly Token[], bracket = 0, words = /^(if|for|while|switch|catch|with)$/): boolean {
  if (textAt(tokens, bracket) !== '(') return false;
  const at = textAt(tokens, bracket - 1) === 'await' ? bracket - 2 : bracket - 1;
  return words.test(textAt(tokens, at)) && !isProperty(tokens, at);
}

function textAt(tokens: readonly Token[], at: number): string {
  return tokens[at]?.text ?? '';
}

/** How tight operators bind, from the loosest to the tightest. A value with what is called or read of it: `tightest`. */
const operators = ['', ',', '=', '? :', '??', '||', '&&', '|', '^', '&', '== != === !==', '< > <= >= in instanceof'];
const binary = [...operators, '<< >> >>>', '+ -', '* / %', '**'];
const levels = new Map(binary.flatMap((texts, level) => texts.split(' ').map((text) => [text, level] as const)));
const [assignment, conditional, coalescing, bitwise] = [2, 3, 4, 7];
export const additive = levels.get('+') as number;
const [unary, postfix, tightest] = [16, 17, 19];
const never = 100;
/** What stands where a statement begins is never put together with anything. */
export const statement = tightest;

/** Level of an operator between two values; undefined if the text is none. */
function levelOf({ kind, text }: Token): number | undefined {
  if (kind === 'word' ? !/^(in|instanceof)$/.test(text) : kind !== 'sign') return undefined;
  return /^([+\-*/%&|^]|\*\*|<<|>>>?|&&|\|\||\?\?)=$/.test(text) ? assignment : levels.get(text);
}

function isNeedless(tokens: readonly Token[], pair: Pair, without: ReadonlySet<number>): boolean {
  const { from, to } = pair;
  const inside = tokens.slice(from + 1, to).filter((_, offset) => !without.has(from + 1 + offset));
  const before = pair.isBehindBlock ? statement : neededBehind(tokens, from);
  const after = neededBefore(tokens[to + 1]);
  if (before === undefined || inside.length === 0) return false;
  // A new line ends these two.
  if (tokens[from]?.afterNewline && /^(return|yield)$/.test(textAt(tokens, from - 1))) return false;
  // Elsewhere it is a function of the user's own: `of(order).total`.
  if (textAt(tokens, from - 1) === 'of' && !pair.isInForHead) return false;
  const first = inside[0] as Token;
  const isStatement = before === statement;
  if (isStatement && (first.kind !== 'word' || first.text === 'let')) return false;
  if (first.text === '{' && textAt(tokens, from - 1) === '=>') return false;
  const { level, isChain, hasIn } = measure(inside);
  if (hasIn && pair.isInForHead) return false;
  if (level < 0) return !isStatement && before <= assignment && after === 0 && isOneValue(inside);
  if (isChain && after === tightest) return false;
  return level >= before && level >= after;
}

/** A function, an arrow function: nothing that one could tell the level of, but one value. */
function isOneValue(inside: readonly Token[]): boolean {
  let depth = 0;
  for (const { text } of inside) {
    if (/^[([{]$/.test(text)) depth++;
    if (/^[)\]}]$/.test(text)) depth--;
    if (depth === 0 && text === ',') return false;
  }
  return !/^(\{|function|class|yield)$/.test(textAt(inside, 0));
}

/** How tight a value has to be to stand at this place without brackets, for what is before it; undefined: keep them. */
export function neededBehind(tokens: readonly Token[], at: number): number | undefined {
  const before = tokens[at - 1];
  if (!before) return undefined;
  const { kind, text } = before;
  if (isTemplate(kind)) return text.endsWith('${') ? assignment : undefined;
  if (kind === 'word') return isProperty(tokens, at - 1) ? undefined : neededBehindWord(tokens, at);
  if (kind !== 'sign') return undefined;
  if (/^([(,[?:]|=>|\.\.\.)$/.test(text)) return assignment;
  if (/^[!~]$/.test(text) || (/^[+-]$/.test(text) && !isValueEnd(tokens, at - 2))) return unary;
  if (/^[;{]$/.test(text)) return statement;
  const level = levelOf(before);
  if (level === undefined) return undefined;
  if (level === assignment) return assignment;
  if (level === coalescing) return bitwise;
  return text === '**' ? tightest : level + 1;
}

function neededBehindWord(tokens: readonly Token[], at: number): number | undefined {
  const word = textAt(tokens, at - 1);
  if (/^(return|throw|case|yield)$/.test(word)) return assignment;
  if (/^(await|typeof|void|delete)$/.test(word)) return unary;
  if (/^(else|do)$/.test(word)) return statement;
  if (word === 'of') return isValueEnd(tokens, at - 2) ? assignment : undefined;
  const level = levelOf(tokens[at - 1] as Token);
  return level === undefined ? undefined : level + 1;
}

function isTemplate(kind: Token['kind']): boolean {
  return kind === 'template' || kind === 'tagged';
}

function isProperty(tokens: readonly Token[], at: number): boolean {
  return /^\??\.$/.test(textAt(tokens, at - 1));
}

const wordsBeforeValue = new Set(
  'await case delete do else in instanceof new of return throw typeof void yield'.split(' '),
);

function isValueEnd(tokens: readonly Token[], at: number): boolean {
  const token = tokens[at];
  if (!token) return false;
  if (token.kind === 'word') return isProperty(tokens, at) || !wordsBeforeValue.has(token.text);
  if (isTemplate(token.kind)) return token.text.endsWith('`');
  return token.kind !== 'sign' || /^[)\]]$/.test(token.text);
}

/** The same for what is behind it. */
export function neededBefore(after: Token | undefined): number {
  if (!after || /^[)\]},;:]/.test(after.text)) return 0;
  const { kind, text, afterNewline } = after;
  const level = levelOf(after);
  if (level === undefined || level === assignment) {
    if (/^([.[(]|\?\.)$/.test(text) || kind === 'tagged' || level === assignment) return tightest;
    return afterNewline && kind !== 'sign' ? 0 : never;
  }
  if (text === '?') return conditional + 1;
  if (level === coalescing) return bitwise;
  return text === '**' ? tightest : level;
}

interface Measure {
  /** Of the loosest operator; below 0 if that cannot be told. */
  readonly level: number;
  /** Has a `?.`, which ends with the brackets around it. */
  readonly isChain: boolean;
  readonly hasIn: boolean;
}

function measure(inside: readonly Token[]): Measure {
  let [level, depth, isValue, isChain, hasIn] = [tightest, 0, false, false, false];
  for (const [at, token] of inside.entries()) {
    const { kind, text } = token;
    if (/^[)\]]$/.test(text) || text.startsWith('}')) depth--;
    if (depth === 0) {
      const next = isProperty(inside, at) ? { level: tightest, isValue: true } : measureOne(token, isValue);
      if (next.level < 0) return { level: -1, isChain, hasIn };
      [level, isValue] = [Math.min(level, next.level), next.isValue];
      isChain ||= text === '?.';
      hasIn ||= text === 'in';
    }
    if (/^[([{]$/.test(text) || (isTemplate(kind) && text.endsWith('${'))) depth++;
  }
  return { level: isValue ? level : -1, isChain, hasIn };
}

const unknown = { level: -1, isValue: false };

/** One token, which stands behind a value or where a value begins. */
function measureOne(token: Token, isBehindValue: boolean): { level: number; isValue: boolean } {
  const { kind, text } = token;
  if (/^([)\]]|\})/.test(text) || /^(\.|\?\.)$/.test(text)) return { level: tightest, isValue: text !== '.' };
  if (/^[([]$/.test(text)) return { level: tightest, isValue: isBehindValue };
  if (!isBehindValue) return measureBeginning(token);
  if (/^(\+\+|--)$/.test(text)) return { level: postfix, isValue: true };
  const level = levelOf(token);
  return level === undefined || kind === 'tagged' ? unknown : { level, isValue: false };
}

function measureBeginning({ kind, text }: Token): { level: number; isValue: boolean } {
  if (kind === 'word') {
    if (/^(await|typeof|void|delete)$/.test(text)) return { level: unary, isValue: false };
    if (text === 'new') return { level: tightest, isValue: false };
    if (text === 'yield') return { level: assignment, isValue: false };
    return /^(async|class|function)$/.test(text) ? unknown : { level: tightest, isValue: true };
  }
  if (kind !== 'sign') return { level: tightest, isValue: true };
  if (text === '{') return { level: tightest, isValue: false };
  return /^([!~+-]|\+\+|--)$/.test(text) ? { level: unary, isValue: false } : unknown;
}
