/**
 * Hides the secrets of connection settings in errors. Servers and drivers repeat what they were sent, in whole or in
 * part (`unrecognized configuration parameter "..."`). Therefore every error of a server or driver passes through here
 * before it is shown.
 *
 * 1. If an error contains four consecutive characters of a secret, in any spelling, it is replaced by an error with
 *    only its code. No part is cut out of a text: the gap would reveal the secret.
 * 2. Names that are shown anyway (host, user, database) are not secret, even if a secret has the same text.
 */
export class Secrets {
  private readonly texts = new Set<string>();
  private readonly shown = new Set<string>();
  private shortLived: string[] = [];

  /** Adds secrets of any type: texts, bytes, and objects or lists of them, as in `ssl`. */
  add(secret: unknown, depth = 0): void {
    if (typeof secret === 'string') for (const spelling of spellings(secret)) this.texts.add(spelling.toLowerCase());
    else if (secret instanceof Uint8Array) this.add(Buffer.from(secret).toString());
    else if (typeof secret === 'object' && secret !== null && depth < 4) {
      // pg makes the keys of certificates non-enumerable, so `Object.keys` would miss them.
      for (const key of Reflect.ownKeys(secret)) this.add((secret as Record<PropertyKey, unknown>)[key], depth + 1);
    }
  }

  /** Adds a short-lived password. Only the last five are kept. */
  addShortLived(token: unknown): void {
    if (typeof token !== 'string' || this.shortLived.includes(token)) return;
    this.shortLived = [token, ...this.shortLived].slice(0, 5);
  }

  /** Adds a name that is not secret. */
  addShown(name: string): void {
    if (name !== '') this.shown.add(name.toLowerCase());
  }

  /** Returns the error itself, or a replacement that contains no secrets. */
  redact(error: unknown): unknown {
    if (!textsOf(error).some((text) => this.containsSecret(text))) return error;
    const code = (error as { code?: unknown } | null)?.code;
    const message = 'the message is not shown, because it may contain part of the password or of another setting';
    const replacement = new Error(message);
    // A code reveals no secret, and callers use it to distinguish failures.
    if (typeof code === 'string' && /^[A-Z0-9_]{1,40}$/.test(code)) {
      Object.assign(replacement, { code, message: `${code}: ${message}` });
    }
    return replacement;
  }

  private containsSecret(text: string): boolean {
    const lower = text.toLowerCase();
    const shown = [...this.shown].flatMap((name) => occurrences(lower, name));
    const shortLived = this.shortLived.flatMap((token) => spellings(token).map((spelling) => spelling.toLowerCase()));
    return [...this.texts, ...shortLived].some((secret) => {
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
  // In the query of a URL, a plus sign stands for a space and an encoded plus sign for a plus sign. Therefore plus
  // signs are replaced before decoding.
  for (const start of [secret, secret.replaceAll('+', ' ')]) {
    // The secret may be encoded twice by mistake and decoded once by the driver.
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

/** Properties of an error whose values come from code, never from settings. */
const harmlessProperties = new Set(['name', 'code', 'severity', 'file', 'line', 'routine', 'syscall', 'length']);

/**
 * Returns all texts of an error, its causes and its properties. For a stack, returns only the text before the frames.
 */
function textsOf(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  if (typeof value !== 'object' || value === null || depth > 6) return [];
  return Reflect.ownKeys(value).flatMap((key) => {
    if (typeof key === 'symbol' || harmlessProperties.has(key)) return [];
    const own = (value as Record<string, unknown>)[key];
    if (key === 'stack' && typeof own === 'string') return [own.split('\n    at ')[0] ?? ''];
    return textsOf(own, depth + 1);
  });
}
