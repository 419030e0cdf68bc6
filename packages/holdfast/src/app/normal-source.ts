import { withJoinedTexts } from './joined-texts.js';
import { withoutNeedlessBrackets } from './needless-brackets.js';
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
    const passes = [
      ...[withoutCompilerMarks, withShorthands, withBracketedParameters, withArguments],
      ...[withoutNeedlessBrackets, withJoinedTexts, withoutEndings],
    ];
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
    } else if (isNaming(tokens, at) && beginsStatement(kept.at(-1))) {
      at += textAt(tokens, at + 6) === ';' ? 6 : 5;
    } else if (follows('__name', '(')) {
      open.push(true);
      at++;
    } else if (open.at(-1) && token.text === ',' && tokens[at + 1]?.kind === 'text' && follows(',', undefined, ')')) {
      open.pop();
      at += 2;
    } else if (follows('(', '0', ',', undefined, '.', undefined, ')') && isImportCalled(tokens, at)) {
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

/** `__name(fn, "fn")` */
function isNaming(tokens: readonly Token[], at: number): boolean {
  const [call, open, , comma, name, close] = tokens.slice(at, at + 6);
  const isCall = call?.text === '__name' && open?.text === '(' && comma?.text === ',' && close?.text === ')';
  return isCall && name?.kind === 'text';
}

function isImportCalled(tokens: readonly Token[], at: number): boolean {
  const after = tokens[at + 7];
  const isCalled = after?.kind === 'tagged' || /^(\(|\?\.)$/.test(after?.text ?? '');
  return isCalled && /^import_\w+$|_\d+$/.test(textAt(tokens, at + 3));
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

/** `new Date` is `new Date()`. */
function withArguments(tokens: readonly Token[]): Token[] {
  const ends = new Set<number>();
  tokens.forEach(({ kind, text }, at) => {
    const isOperator = kind === 'word' && text === 'new' && !/^\??\.$/.test(textAt(tokens, at - 1));
    const end = isOperator ? endOfName(tokens, at + 1) : undefined;
    if (end !== undefined && textAt(tokens, end) !== '(' && tokens[end]?.kind !== 'tagged') ends.add(end);
  });
  const spread = tokens.flatMap((token, at) => (ends.has(at) ? [sign('('), sign(')'), token] : [token]));
  return ends.has(tokens.length) ? [...spread, sign('('), sign(')')] : spread;
}

/** Behind `a.b[c]` or `(a).b[c]`; undefined where something else begins. */
function endOfName(tokens: readonly Token[], from: number): number | undefined {
  const isName = tokens[from]?.kind === 'word' && !/^(new|class|function|import)$/.test(textAt(tokens, from));
  if (!isName && textAt(tokens, from) !== '(') return undefined;
  let at = isName ? from + 1 : endOfPair(tokens, from);
  while (/^[.[]$/.test(textAt(tokens, at))) at = textAt(tokens, at) === '.' ? at + 2 : endOfPair(tokens, at);
  return at;
}

function endOfPair(tokens: readonly Token[], from: number): number {
  let depth = 0;
  for (let at = from; at < tokens.length; at++) {
    if (/^[[(]$/.test(textAt(tokens, at))) depth++;
    if (/^[\])]$/.test(textAt(tokens, at)) && --depth === 0) return at + 1;
  }
  return tokens.length;
}

/** `{ run: run }` is `{ run }`. */
function withShorthands(tokens: readonly Token[]): Token[] {
  const isTwice = (at: number): boolean => {
    const [name, colon, value, after] = tokens.slice(at, at + 4);
    const isPair = name?.kind === 'word' && colon?.text === ':' && value?.kind === 'word' && value.text === name.text;
    return (
      isPair && name.text !== '__proto__' && /^[{,]$/.test(textAt(tokens, at - 1)) && /^[,}]$/.test(after?.text ?? '')
    );
  };
  return tokens.filter((_, at) => !isTwice(at - 1) && !isTwice(at - 2));
}

/** What would go on with the statement before it, were it not for the semicolon. */
const continuing = /^([([+\-*/.,`]|\+\+|--)/;

/** Semicolons and commas that may be left out. */
function withoutEndings(tokens: readonly Token[]): Token[] {
  const kept: Token[] = [];
  /** For each open bracket, the word before it if that makes it the head of a statement. */
  const open: string[] = [];
  let closed = '';
  /** Where the last block of a `do` ends, which a `while` follows that is not the head of a loop. */
  let endOfDo = -1;
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
    if (/^[([{]$/.test(text)) open.push(at - 2 === endOfDo ? '' : headOf(tokens, at));
    if (/^[)\]}]$/.test(text)) closed = open.pop() ?? '';
    if (text === '}' && closed === 'do') endOfDo = at;
    kept.push(token);
  });
  return kept;
}

function headOf(tokens: readonly Token[], at: number): string {
  if (textAt(tokens, at) === '{') return textAt(tokens, at - 1) === 'do' ? 'do' : '';
  const before = textAt(tokens, at - 1) === 'await' ? textAt(tokens, at - 2) : textAt(tokens, at - 1);
  return textAt(tokens, at) === '(' && /^(for|if|while|with)$/.test(before) ? before : '';
}

/** Whether something else would be meant without the semicolon. */
function endsStatement(kept: readonly Token[], after: Token | undefined): boolean {
  if (!after || after.text === '}' || kept.at(-1)?.text === ';') return false;
  return after.kind === 'regex' || continuing.test(after.text) || isEndingWord(kept) || isPrefix(kept);
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

/** `class { get; a() {} }` has a field and a method, `class { get a() {} }` a getter. */
function isPrefix(kept: readonly Token[]): boolean {
  return /^(accessor|async|get|set|static)$/.test(kept.at(-1)?.text ?? '') && kept.at(-2)?.text !== '.';
}

function isEndingWord(kept: readonly Token[]): boolean {
  return /^(return|break|continue|yield)$/.test(kept.at(-1)?.text ?? '') && kept.at(-2)?.text !== '.';
}
