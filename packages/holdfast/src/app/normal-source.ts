import { type Token, tokensOf } from './source-tokens.js';

/**
 * A function's text without what does not change its meaning, so that a formatter, a comment, or another way of removing
 * the types (Node itself, tsx, esbuild, tsc) makes no new version.
 *
 * 1. Two texts that become the same must mean the same: a change that is overlooked would replay old work on new code.
 *    Where that is in doubt, what is written stays.
 * 2. What becomes of a text is in every version that was ever deployed: changing that changes them all.
 * 3. A text that cannot be read is left as it is.
 */
export function normalSource(source: string): string {
  try {
    const passes = [withoutCompilerMarks, withBracketedParameters, withoutNeedlessBrackets, withoutEndings];
    const tokens = passes.reduce((before: readonly Token[], pass) => pass(before), tokensOf(source));
    return tokens.map(({ text }) => text).join(' ');
  } catch {
    return source;
  }
}

function textAt(tokens: readonly Token[], at: number): string {
  return tokens[at]?.text ?? '';
}

/** Names that compilers give to functions, and how they reach what was imported. */
function withoutCompilerMarks(tokens: readonly Token[]): Token[] {
  const kept: Token[] = [];
  /** For each open bracket, whether it belongs to `__name(fn, "name")`. */
  const open: boolean[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at] as Token;
    const follows = (...texts: (string | undefined)[]): boolean =>
      texts.every((text, offset) => text === undefined || text === textAt(tokens, at + offset));
    if (follows('static', '{', '__name', '(', 'this', ',', undefined, ')')) {
      at += textAt(tokens, at + 8) === ';' ? 9 : 8;
    } else if (follows('__name', '(', undefined, ',', undefined, ')') && beginsStatement(kept.at(-1))) {
      at += textAt(tokens, at + 6) === ';' ? 6 : 5;
    } else if (follows('__name', '(')) {
      open.push(true);
      at++;
    } else if (open.at(-1) && token.text === ',' && tokens[at + 1]?.kind === 'text' && follows(',', undefined, ')')) {
      open.pop();
      at += 2;
    } else if (follows('(', '0', ',', undefined, '.', undefined, ')', '(')) {
      // (0, import_holdfast.run)(...)
      kept.push(tokens[at + 5] as Token);
      at += 6;
    } else if (/^import_\w+$/.test(token.text) && textAt(tokens, at + 1) === '.' && kept.at(-1)?.text !== '.') {
      at++;
    } else if (follows('void', '0')) {
      kept.push({ ...token, text: 'undefined' });
      at++;
    } else {
      if (/^[([{]$/.test(token.text)) open.push(false);
      if (/^[)\]}]$/.test(token.text)) open.pop();
      kept.push(token);
    }
  }
  return kept;
}

function beginsStatement(before: Token | undefined): boolean {
  return before === undefined || /^[;{})]$/.test(before.text);
}

/** `x => x` is `(x) => x`. */
function withBracketedParameters(tokens: readonly Token[]): Token[] {
  return tokens.flatMap((token, at) => {
    if (token.kind !== 'word' || textAt(tokens, at + 1) !== '=>') return [token];
    return [sign('(', token.afterNewline), { ...token, afterNewline: false }, sign(')')];
  });
}

function sign(text: string, afterNewline = false): Token {
  return { kind: 'sign', text, afterNewline };
}

/** Brackets that were there for a type, as in `(order as Order).id`, and for nothing else. */
function withoutNeedlessBrackets(tokens: readonly Token[]): Token[] {
  const needless = new Set<number>();
  const open: number[] = [];
  tokens.forEach(({ text }, at) => {
    if (text === '(') open.push(at);
    if (text !== ')') return;
    const from = open.pop();
    if (from === undefined || !isNeedless(tokens, from, at, needless)) return;
    needless.add(from).add(at);
  });
  return tokens.filter((_, at) => !needless.has(at));
}

const wordsBeforeValue = new Set(
  'await case delete do else in instanceof of return throw typeof void yield'.split(' '),
);

function isNeedless(tokens: readonly Token[], from: number, to: number, without: ReadonlySet<number>): boolean {
  const [before, after] = [tokens[from - 1], tokens[to + 1]];
  if (!before || !isBeforeValue(before) || after?.text === '=>') return false;
  const inside = tokens.slice(from + 1, to).filter((_, offset) => !without.has(from + 1 + offset));
  return isOnePiece(inside, after) || (isAlone(before, after) && isOneValue(inside));
}

function isBeforeValue({ kind, text }: Token): boolean {
  if (kind === 'word') return wordsBeforeValue.has(text);
  return kind === 'template' ? text.endsWith('${') : kind === 'sign' && !/^([)\]}]|\?\.|\+\+|--)$/.test(text);
}

/** A name with what is called or read of it, which nothing can tear apart: `order.lines(1)[0]`. */
function isOnePiece(inside: readonly Token[], after: Token | undefined): boolean {
  const [first, ...rest] = inside;
  if (first?.text === 'await' || first?.kind !== 'word' || /^(function|class|new|async)$/.test(first.text))
    return false;
  let depth = 0;
  for (const [at, { kind, text }] of rest.entries()) {
    if (/^[([]$/.test(text)) depth++;
    else if (/^[)\]]$/.test(text)) depth--;
    else if (depth === 0 && text !== '.' && !(kind === 'word' && textAt(rest, at - 1) === '.')) return false;
  }
  // In `(a.b)(c)` and `(a.b).c` the brackets mean nothing; behind `new` they would, which no value follows here.
  return depth === 0 && after?.kind !== 'template';
}

/** Between these, whatever is in brackets is one value in any case. */
function isAlone(before: Token, after: Token | undefined): boolean {
  const begins = /^(=|\(|\[|,|=>|return|throw)$/.test(before.text) || before.text.endsWith('${');
  if (!begins || !after) return begins;
  if (after.kind === 'word') return !/^(in|instanceof|of)$/.test(after.text);
  return /^[;)\],}]/.test(after.text);
}

function isOneValue(inside: readonly Token[]): boolean {
  let depth = 0;
  for (const { text } of inside) {
    if (/^[([{]$/.test(text)) depth++;
    if (/^[)\]}]$/.test(text)) depth--;
    if (depth === 0 && text === ',') return false;
  }
  return inside.length > 0 && !/^(\{|function|class|yield)$/.test(textAt(inside, 0));
}

/** What would go on with the statement before it, were it not for the semicolon. */
const continuing = /^([([+\-*/.,`]|\+\+|--)/;

/** Semicolons and commas that may be left out. */
function withoutEndings(tokens: readonly Token[]): Token[] {
  const kept: Token[] = [];
  /** For each open bracket, the word before it if that makes it the head of a statement. */
  const open: string[] = [];
  let closed = '';
  tokens.forEach((token, at) => {
    const [before, after] = [kept.at(-1), tokens[at + 1]];
    const { text } = token;
    if (text === ';' && token.kind === 'sign') {
      const isBody = before?.text === ')' && closed !== '';
      if (open.at(-1) === 'for' || isBody || endsStatement(kept, after)) kept.push(token);
      return;
    }
    if (text === ',' && /^[)\]}]$/.test(after?.text ?? '') && !/^[,[]$/.test(before?.text ?? '')) return;
    if (token.afterNewline && endsAtNewline(kept, token)) kept.push(sign(';'));
    if (/^[([{]$/.test(text)) open.push(headOf(tokens, at));
    if (/^[)\]}]$/.test(text)) closed = open.pop() ?? '';
    kept.push(token);
  });
  return kept;
}

function headOf(tokens: readonly Token[], at: number): string {
  const before = textAt(tokens, at - 1) === 'await' ? textAt(tokens, at - 2) : textAt(tokens, at - 1);
  return textAt(tokens, at) === '(' && /^(for|if|while|with)$/.test(before) ? before : '';
}

/** Whether something else would be meant without the semicolon. */
function endsStatement(kept: readonly Token[], after: Token | undefined): boolean {
  if (!after || after.text === '}' || kept.at(-1)?.text === ';') return false;
  return after.kind === 'regex' || continuing.test(after.text) || isEndingWord(kept);
}

/** Where the language itself puts a semicolon that changes what the next line means. */
function endsAtNewline(kept: readonly Token[], token: Token): boolean {
  if (token.text === '}' || kept.at(-1)?.text === ';') return false;
  if (isEndingWord(kept)) return true;
  const before = kept.at(-1);
  return (
    /^(\+\+|--)$/.test(token.text) && before !== undefined && !(before.kind === 'sign' && /^[{};]$/.test(before.text))
  );
}

function isEndingWord(kept: readonly Token[]): boolean {
  return /^(return|break|continue|yield)$/.test(kept.at(-1)?.text ?? '') && kept.at(-2)?.text !== '.';
}
