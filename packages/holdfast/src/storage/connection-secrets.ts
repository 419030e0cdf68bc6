/**
 * What must not be shown of the settings of a connection. Servers and drivers repeat what they were sent, whole or in part
 * (`unrecognized configuration parameter "..."`), so that every error of theirs passes here before anybody sees it.
 *
 * 1. An error that has four characters in a row of a secret, in any spelling, is replaced by one that has nothing but its
 *    code. Nothing is cut out of a text: what is missing would tell what the secret is.
 * 2. Names that are shown anyway (host, user, database) are no secret, also where the secret is the same.
 */
export class Secrets {
  private readonly texts = new Set<string>();
  private readonly shown = new Set<string>();
  private passing: string[] = [];

  /** Anything: texts, bytes, and objects or lists of them, as in `ssl`. */
  add(secret: unknown, depth = 0): void {
    if (typeof secret === 'string') for (const spelling of spellings(secret)) this.texts.add(spelling.toLowerCase());
    else if (secret instanceof Uint8Array) this.add(Buffer.from(secret).toString());
    else if (typeof secret === 'object' && secret !== null && depth < 4) {
      // pg hides the keys of certificates from whoever enumerates them.
      for (const key of Reflect.ownKeys(secret)) this.add((secret as Record<PropertyKey, unknown>)[key], depth + 1);
    }
  }

  /** A password that will be another one soon: the last ones are enough. */
  addPassing(token: unknown): void {
    if (typeof token !== 'string' || this.passing.includes(token)) return;
    this.passing = [token, ...this.passing].slice(0, 5);
  }

  /** A name that is no secret. */
  addShown(name: string): void {
    if (name !== '') this.shown.add(name.toLowerCase());
  }

  /** The error itself, or what may be told of it. */
  tell(error: unknown): unknown {
    if (!textsOf(error).some((text) => this.isIn(text))) return error;
    const code = (error as { code?: unknown } | null)?.code;
    const message = 'what it says is not shown, because it may repeat a part of the password or of another setting';
    const told = new Error(message);
    // By a code nobody learns anything, and failures are told apart by it.
    if (typeof code === 'string' && /^[A-Z0-9_]{1,40}$/.test(code)) {
      Object.assign(told, { code, message: `${code}, ${message}` });
    }
    return told;
  }

  private isIn(text: string): boolean {
    const lower = text.toLowerCase();
    const shown = [...this.shown].flatMap((name) => occurrences(lower, name));
    const passing = this.passing.flatMap((token) => spellings(token).map((spelling) => spelling.toLowerCase()));
    return [...this.texts, ...passing].some((secret) => {
      const length = Math.min(4, secret.length);
      for (let at = 0; at + length <= lower.length; at++) {
        const isShown = shown.some(([from, to]) => from <= at && at + length <= to);
        if (!isShown && secret.includes(lower.slice(at, at + length))) return true;
      }
      return false;
    });
  }
}

function spellings(secret: string): string[] {
  const text = secret.toWellFormed();
  const found = new Set([secret, encodeURI(text), encodeURIComponent(text)]);
  // In the query of a URL a plus sign is a blank, and an encoded plus sign is a plus sign: blanks come first.
  for (const start of [secret, secret.replaceAll('+', ' ')]) {
    // Encoded twice by mistake, and decoded once by the driver.
    for (let each = start, times = 0; times < 3; times++) {
      each = decoded(each);
      found.add(each).add(each.replaceAll('+', ' '));
    }
  }
  return [...found].filter((spelling) => spelling.trim() !== '');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function occurrences(text: string, name: string): [from: number, to: number][] {
  const found: [number, number][] = [];
  for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + 1)) found.push([at, at + name.length]);
  return found;
}

/** Of an error: names and numbers that come from code, never from settings. */
const ofCode = new Set(['name', 'code', 'severity', 'file', 'line', 'routine', 'syscall', 'length']);

/** All texts of an error, its causes and its properties. Of a stack what comes before the frames. */
function textsOf(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  if (typeof value !== 'object' || value === null || depth > 6) return [];
  return Reflect.ownKeys(value).flatMap((key) => {
    if (typeof key === 'symbol' || ofCode.has(key)) return [];
    const own = (value as Record<string, unknown>)[key];
    if (key === 'stack' && typeof own === 'string') return [own.split('\n    at ')[0] ?? ''];
    return textsOf(own, depth + 1);
  });
}
