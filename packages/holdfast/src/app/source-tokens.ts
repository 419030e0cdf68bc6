/** A piece of JavaScript that means something. White space and comments do not. */
export interface Token {
  /** `tagged`: a piece of a template behind a tag, which is given what is written and not only what it means. */
  readonly kind: 'word' | 'number' | 'text' | 'template' | 'tagged' | 'regex' | 'sign';
  readonly text: string;
  /** A line ends before it, where the language may see the end of a statement. */
  readonly afterNewline: boolean;
}

/** Words after which a slash begins a regular expression, and a bracket an expression. */
const wordsBeforeValue = new Set(
  'await case delete do else extends in instanceof new of return throw typeof void yield'.split(' '),
);

const signs = [
  '>>>= ... === !== **= <<= >>= >>> &&= ||= ??= => == != <= >= && || ?? ?. ++ -- += -= *= /= %= &= |= ^= << >> **',
  '{ } ( ) [ ] ; , < > + - * / % & | ^ ! ~ ? : = . @',
]
  .join(' ')
  .split(' ');

const space = /[\s\uFEFF]+/y;
const comment = /\/\/[^\n\r\u2028\u2029]*|\/\*[\s\S]*?\*\//y;
const word = /[#\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
const number = /(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?[\d_]+)?)n?/y;
const text = /'(?:[^'\\]|\\[\s\S])*'|"(?:[^"\\]|\\[\s\S])*"/y;
const regex = /\/(?:[^/\\[\n\r]|\\.|\[(?:[^\]\\\n\r]|\\.)*\])+\/[\p{ID_Continue}$]*/uy;

/** Takes JavaScript apart. Throws if it is not what it looks like: then the caller has to do without. */
export function tokensOf(source: string): Token[] {
  return new Reader(source).read();
}

class Reader {
  private at = 0;
  private readonly tokens: Token[] = [];
  private afterNewline = false;
  /** For each open bracket, whether a value may begin after it is closed, as behind `if (...)`. */
  private readonly open: boolean[] = [];
  private closedHead = false;
  /** For each template around this place, how many braces are open in its value. */
  private readonly templates: { braces: number; readonly kind: 'template' | 'tagged' }[] = [];

  constructor(private readonly source: string) {}

  read(): Token[] {
    while (this.at < this.source.length) {
      const skipped = this.match(space) ?? this.match(comment);
      if (skipped === undefined) {
        this.tokens.push({ ...this.next(), afterNewline: this.afterNewline });
        this.afterNewline = false;
      } else this.afterNewline ||= /[\n\r\u2028\u2029]/.test(skipped);
    }
    if (this.templates.length > 0) throw new Error('A template without an end.');
    return this.tokens;
  }

  private next(): Omit<Token, 'afterNewline'> {
    const char = this.source[this.at];
    if (char === '`') return this.template(this.valueMayBegin() ? 'template' : 'tagged');
    if (char === '}' && this.templates.at(-1)?.braces === 0)
      return this.template(this.templates.pop()?.kind ?? 'tagged');
    const plain = this.match(word);
    if (plain !== undefined) return { kind: 'word', text: plain };
    const figures = this.match(number);
    if (figures !== undefined) return { kind: 'number', text: plainNumber(figures) };
    const quoted = this.match(text);
    if (quoted !== undefined) return { kind: 'text', text: plainText(quoted.slice(0, -1)) };
    const expression = this.valueMayBegin() ? this.match(regex) : undefined;
    return expression === undefined ? { kind: 'sign', text: this.sign() } : { kind: 'regex', text: expression };
  }

  private sign(): string {
    const sign = signs.find((each) => this.source.startsWith(each, this.at));
    if (sign === undefined) throw new Error(`Not JavaScript, at ${this.at}.`);
    this.at += sign.length;
    if (sign === '(') this.open.push(/^(if|while|for|with)$/.test(this.tokens.at(-1)?.text ?? ''));
    if (sign === ')') this.closedHead = this.open.pop() ?? false;
    const template = this.templates.at(-1);
    if (template) template.braces += sign === '{' ? 1 : sign === '}' ? -1 : 0;
    return sign;
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.source)?.[0];
    if (!found) return undefined;
    this.at += found.length;
    return found;
  }

  private valueMayBegin(): boolean {
    const last = this.tokens.at(-1);
    if (!last) return true;
    if (last.kind === 'word') return wordsBeforeValue.has(last.text) && !/^\??\.$/.test(this.tokens.at(-2)?.text ?? '');
    if (last.kind === 'template' || last.kind === 'tagged') return last.text.endsWith('${');
    if (last.kind !== 'sign') return false;
    if (last.text === ')') return this.closedHead;
    return !/^(\]|\}|\+\+|--)$/.test(last.text);
  }

  /** A piece of a template: up to a value in it, or from the end of one. */
  private template(kind: 'template' | 'tagged'): Omit<Token, 'afterNewline'> {
    const from = this.at++;
    for (;;) {
      const char = this.source[this.at];
      if (char === undefined) throw new Error('A template without an end.');
      const begins = char === '$' && this.source[this.at + 1] === '{';
      this.at += char === '\\' || begins ? 2 : 1;
      if (!begins && char !== '`') continue;
      if (begins) this.templates.push({ braces: 0, kind });
      // The language reads every end of a line in a template as \n.
      const raw = this.source.slice(from, this.at).replace(/\r\n?/g, '\n');
      if (kind === 'tagged') return { kind, text: raw };
      const end = begins ? '${' : '`';
      return {
        kind,
        text: `${raw[0]}${plainText(raw.slice(0, -end.length)).slice(1, -1).replace(/[`$]/g, '\\$&')}${end}`,
      };
    }
  }
}

function plainNumber(found: string): string {
  const digits = found.replaceAll('_', '');
  return digits.endsWith('n') ? `${BigInt(digits.slice(0, -1))}n` : String(Number(digits));
}

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v', 0: '\0' };

/** The characters behind a quote, however they are escaped. */
function plainText(quoted: string): string {
  const pattern = /\\(?:u\{([\da-fA-F]+)\}|u([\da-fA-F]{4})|x([\da-fA-F]{2})|(\r\n|[\s\S]))/g;
  const characters = quoted.slice(1).replace(pattern, (_, point, unit, byte, single) => {
    const code = point ?? unit ?? byte;
    if (code !== undefined) return String.fromCodePoint(Number.parseInt(code, 16));
    return /[\n\r\u2028\u2029]/.test(single) ? '' : (escapes[single] ?? single);
  });
  return JSON.stringify(characters);
}
