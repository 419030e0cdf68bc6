import { additive, neededBefore, neededBehind, statement } from './needless-brackets.js';
import type { Token } from './source-tokens.js';

/** Writes `'a' + 'b'` as `'ab'`, and so with templates: esbuild does. A template without values is a text. */
export function withJoinedTexts(tokens: readonly Token[]): Token[] {
  const kept: Token[] = [];
  /** Where each template that is open begins. */
  const open: number[] = [];
  /** Where the last text or template begins and ends. */
  let [from, to] = [-1, -1];
  tokens.forEach((token, at) => {
    if (begins(token)) {
      const next = asText(token, kept);
      const isTail = kept.length > 1 && to === kept.length - 2 && isAdded(kept, from) && isLoose(tokens, at);
      if (isTail) kept.push(joined(kept.splice(-2)[0] as Token, next));
      else from = kept.push(next) - 1;
      if (next.text.endsWith('${')) open.push(from);
      else to = kept.length - 1;
      return;
    }
    kept.push(token);
    if (token.kind === 'template' && token.text.endsWith('`')) [from, to] = [open.pop() ?? -1, kept.length - 1];
  });
  return kept;
}

function begins({ kind, text }: Token): boolean {
  return kind === 'text' || (kind === 'template' && text.startsWith('`'));
}

/** Where a statement begins, a text may be a directive, which a template is not. */
function asText(token: Token, kept: readonly Token[]): Token {
  if (token.kind === 'text' || token.text.endsWith('${')) return token;
  if ((neededBehind(kept, kept.length) ?? statement) === statement) return token;
  return { ...token, kind: 'text', text: `"${token.text.slice(1, -1).replace(/\\([`$])/g, '$1')}"` };
}

/** Whether the value that begins there is a part of no tighter operation, and a `+` is behind it. */
function isAdded(kept: readonly Token[], from: number): boolean {
  if (kept.at(-1)?.text !== '+') return false;
  const needed = neededBehind(kept, from) ?? statement;
  return needed <= additive || (needed === additive + 1 && kept[from - 1]?.text === '+');
}

/** Whether what follows the value at that place leaves it to the operator before it. */
function isLoose(tokens: readonly Token[], at: number): boolean {
  let depth = 0;
  for (let end = at; end < tokens.length; end++) {
    const { kind, text } = tokens[end] as Token;
    if (kind === 'template' && text.startsWith('}')) depth--;
    if (kind === 'template' && text.endsWith('${')) depth++;
    if (depth === 0) return neededBefore(tokens[end + 1]) <= additive;
  }
  return false;
}

function joined(one: Token, other: Token): Token {
  if (one.kind === 'text' && other.kind === 'text')
    return { ...one, text: one.text.slice(0, -1) + other.text.slice(1) };
  return { ...one, kind: 'template', text: `${headOf(one)}${tailOf(other)}` };
}

/** A text as the beginning of a template, or a template without its end. */
function headOf({ kind, text }: Token): string {
  return kind === 'text' ? `\`${inTemplate(text)}` : text.slice(0, -1);
}

function tailOf({ kind, text }: Token): string {
  return kind === 'text' ? `${inTemplate(text)}\`` : text.slice(1);
}

function inTemplate(text: string): string {
  return text.slice(1, -1).replace(/[`$]/g, '\\$&');
}
