/**
 * Masks well-known kinds of secrets in errors that are stored or logged. A secret is recognized by the name of its
 * property or by its form in a text. A list of names and forms cannot be complete. It is the second line of defense:
 * the first is that nested objects of an error are not stored at all (stored-errors.ts).
 *
 * Every quantifier has an upper bound, so that no text can make the search slow.
 */

export const mask = '***';

/** Names of headers with a secret value. In lists such as `rawHeaders` the value is the element after the name. */
const headerNames = /^(?:(?:proxy)?authorization|(?:set)?cookie|x?apikey|x?authtoken|x?accesstoken)$/;

const secretNames = new RegExp(
  [
    '^(?:auth|sig|jwt|otp|cvv|cvc|sessionid|sessionkey|xauthkey|bearer)$',
    'password|passwd|passphrase|apikey|privatekey|clientsecret|connectionstring|credential',
    '(?:secret|token|cookies?|authorization|accesskey|secretkey|signingkey|encryptionkey|accountkey|signature|pwd)$',
  ].join('|'),
);

/** Removes case and separators: `X-Api-Key`, `x_api_key` and `xApiKey` become `xapikey`. */
function normalized(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}

/** Returns true if a property of this name contains a secret. */
export function isSecretName(name: string): boolean {
  return name.length <= 100 && secretNames.test(normalized(name));
}

/** Returns true if a header of this name contains a secret. In a list of headers the next element is the secret. */
export function isSecretHeader(name: string): boolean {
  return name.length <= 40 && headerNames.test(normalized(name));
}

const key = '[A-Za-z_][\\w.-]{1,60}';

/** Returns the text with its secrets masked. */
export function maskText(text: string): string {
  let masked = text;
  if (masked.includes('@')) masked = maskUserInfo(masked);
  if (/\b(?:bearer|basic)\b/i.test(masked)) masked = masked.replace(credentials, maskCredential);
  if (/authorization|cookie|(?:api|auth)-(?:key|token)/i.test(masked)) masked = maskHeaderLines(masked);
  if (masked.includes('=')) masked = masked.replace(assignments, maskAssignment);
  if (quotedAfterColon.test(masked)) masked = masked.replace(members, maskMember);
  masked = masked.replace(tokens, maskToken);
  if (masked.includes('PRIVATE KEY')) masked = masked.replace(privateKeys, `$1${mask}`);
  return masked;
}

/**
 * Masks user and password of a URL. A password may contain a slash that should have been encoded. A port followed by
 * a path with an @ is not a password.
 */
function maskUserInfo(text: string): string {
  return text
    .replace(/:\/\/[^\s/?#"'<>`]{1,500}@/g, `://${mask}@`)
    .replace(/:\/\/[^\s/?#:@"'<>`]{0,200}:(?!\d{1,5}(?:[/?#]|\s|$))[^\s"'<>`]{1,300}@/g, `://${mask}@`);
}

const credentials = /\b(bearer|basic)(\s{1,4}|%20)([\w.~+/=-]{2,8000})/gi;

/** English words that follow "Bearer" and "Basic" in messages and are not credentials. */
const plainWords =
  /^(?:tokens?|auth|schemes?|realm|errors?|is|was|and|or|not|in|of|for|headers?|to|the|from|but|has|with|type|format|required|expected|missing|invalid|expired|security|challenge|must|should|cannot)$/i;

function maskCredential(whole: string, scheme: string, space: string, word: string): string {
  const core = word.replace(/[.=]+$/, '');
  if (plainWords.test(core) || /^auth[a-z]*$/i.test(core)) return whole;
  // For example "Basic validation failed". The Base64 of a user and a password does not look like a word.
  if (scheme.toLowerCase() === 'basic' && (core.length < 4 || /^[A-Za-z]?[a-z-]*$/.test(core))) return whole;
  return `${scheme}${space}${mask}`;
}

function maskHeaderLines(text: string): string {
  return text
    .replace(
      /\b((?:proxy-)?authorization)(\s{0,2}[:=]\s{0,2})(?:[A-Za-z][\w-]{0,20}\s{1,4})?[^\s,;'"})\]]{1,8000}/gi,
      `$1$2${mask}`,
    )
    .replace(/\b((?:set-)?cookie)(\s{0,2}:\s{0,2})[\w!#$%&*+.^|~-]{1,100}=[^\r\n'"]{0,8000}/gi, `$1$2${mask}`)
    .replace(/\b((?:x-)?(?:api|auth)-(?:key|token))(\s{0,2}:\s{0,2})[^\s,;'"})\]]{4,8000}/gi, `$1$2${mask}`);
}

/** Matches `password=...` in a query, a form or a connection string. */
const assignments = new RegExp(
  `(?<![\\w.-])(${key})=(?!=)("[^"\\n]{0,8000}|'[^'\\n]{0,8000}|[^\\s&;,"'<>)\\]}]{1,8000})`,
  'g',
);

function maskAssignment(whole: string, name: string, value: string): string {
  if (!isSecretName(name)) return whole;
  const quote = value[0] === '"' || value[0] === "'" ? value[0] : '';
  return `${name}=${quote}${mask}`;
}

const quotedAfterColon = /:\s{0,4}\\{0,3}["'`]/;

/** Matches `"password": "..."` in JSON, in JSON within a JSON string, or in the output of `inspect`. */
const members = new RegExp(
  `(?<![\\w.-])(${key})(\\\\{0,3}["'\`]?\\s{0,4}:\\s{0,4})(\\\\{0,3}["'\`])((?:(?!\\3)(?:\\\\{2}\\\\?[\\s\\S]|\\\\[\\s\\S]|[^\\\\])){0,8000})`,
  'g',
);

function maskMember(whole: string, name: string, colon: string, quote: string): string {
  return isSecretName(name) ? `${name}${colon}${quote}${mask}` : whole;
}

/**
 * Matches tokens with a known prefix: JSON Web Tokens, and tokens of GitHub, GitLab, Slack, Stripe, OpenAI, npm and
 * Google. A token begins at the start of a word, so that the rest of a word is not searched again.
 */
const tokens = new RegExp(
  `(?<![\\w.-])(${[
    'eyJ(?=[\\w-]{8,4000}\\.eyJ)',
    'gh[opsur]_(?=[A-Za-z0-9]{20})|github_pat_(?=\\w{20})|glpat-(?=[\\w-]{15})|xox[abeoprs]-(?=[\\w-]{10})',
    '(?:sk|rk)_(?:live|test)_(?=\\w{8})|sk-(?=[\\w-]{0,20}[A-Za-z0-9]{20})|npm_(?=[A-Za-z0-9]{30})|AIza(?=[\\w-]{30})',
  ].join('|')})[\\w.-]{1,8000}`,
  'g',
);

function maskToken(_: string, prefix: string): string {
  return `${prefix}${mask}`;
}

/**
 * Matches a private key up to the next line of dashes. Searching for the END line instead would take seconds in a
 * text with many BEGIN lines.
 */
const privateKeys = /(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?:(?!-----)[\s\S]){1,20000}/g;
