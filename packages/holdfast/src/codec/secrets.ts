/**
 * Secrets of well-known kinds, in what is stored or logged of an error: by the name of the property that holds them, and by
 * their shape in a text. A list of names and shapes cannot be complete. It is the second line of defense: the first one is
 * that nested objects of an error are not stored at all (stored-errors.ts).
 *
 * Every quantifier has an upper bound, so that no text can make the search slow.
 */

export const mask = '***';

/** Names of headers: their values follow them in lists such as `rawHeaders`. */
const headerNames = /^(?:(?:proxy)?authorization|(?:set)?cookie|x?apikey|x?authtoken|x?accesstoken)$/;

const secretNames = new RegExp(
  [
    '^(?:auth|sig|jwt|otp|cvv|cvc|sessionid|sessionkey|xauthkey|bearer)$',
    'password|passwd|passphrase|apikey|privatekey|clientsecret|connectionstring|credential',
    '(?:secret|token|cookies?|authorization|accesskey|secretkey|signingkey|encryptionkey|accountkey|signature|pwd)$',
  ].join('|'),
);

/** Whatever case and separators: `X-Api-Key` is `x_api_key` is `xApiKey`. */
function bare(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}

/** Whether a property of this name holds a secret. */
export function isSecretName(name: string): boolean {
  return name.length <= 100 && secretNames.test(bare(name));
}

/** Whether a header of this name does, so that the next element of a list of headers is one. */
export function isSecretHeader(name: string): boolean {
  return name.length <= 40 && headerNames.test(bare(name));
}

const key = '[A-Za-z_][\\w.-]{1,60}';

/** A text with its secrets masked, or the very same text. */
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

/** A password may have a slash in it, which is not encoded as it should be; but a port and a path with an @ are no password. */
function maskUserInfo(text: string): string {
  return text
    .replace(/:\/\/[^\s/?#"'<>`]{1,500}@/g, `://${mask}@`)
    .replace(/:\/\/[^\s/?#:@"'<>`]{0,200}:(?!\d{1,5}(?:[/?#]|\s|$))[^\s"'<>`]{1,300}@/g, `://${mask}@`);
}

const credentials = /\b(bearer|basic)(\s{1,4}|%20)([\w.~+/=-]{2,8000})/gi;

/** English words that follow "Bearer" and "Basic" in messages about them. */
const ordinary =
  /^(?:tokens?|auth|schemes?|realm|errors?|is|was|and|or|not|in|of|for|headers?|to|the|from|but|has|with|type|format|required|expected|missing|invalid|expired|security|challenge|must|should|cannot)$/i;

function maskCredential(whole: string, scheme: string, space: string, word: string): string {
  const core = word.replace(/[.=]+$/, '');
  if (ordinary.test(core) || /^auth[a-z]*$/i.test(core)) return whole;
  // "Basic validation failed": the Base64 of a user and a password is no word.
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

/** `password=...`, in a query, a form or a connection string. */
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

/** `"password": "..."`, as JSON, JSON in a text of JSON, or an inspection shows it. */
const members = new RegExp(
  `(?<![\\w.-])(${key})(\\\\{0,3}["'\`]?\\s{0,4}:\\s{0,4})(\\\\{0,3}["'\`])((?:(?!\\3)(?:\\\\{2}\\\\?[\\s\\S]|\\\\[\\s\\S]|[^\\\\])){0,8000})`,
  'g',
);

function maskMember(whole: string, name: string, colon: string, quote: string): string {
  return isSecretName(name) ? `${name}${colon}${quote}${mask}` : whole;
}

/**
 * Tokens that tell by themselves what they are: JSON Web Tokens, and those of GitHub, GitLab, Slack, Stripe, OpenAI, npm and Google.
 * Each begins where a word does, so that the rest of a word is not searched again.
 */
const tokens = new RegExp(
  `(?<![\\w.-])(${[
    'eyJ(?=[\\w-]{8,4000}\\.eyJ)',
    'gh[opsur]_(?=[A-Za-z0-9]{20})|github_pat_(?=\\w{20})|glpat-(?=[\\w-]{15})|xox[abeoprs]-(?=[\\w-]{10})',
    '(?:sk|rk)_(?:live|test)_(?=\\w{8})|sk-(?=[\\w-]{0,20}[A-Za-z0-9]{20})|npm_(?=[A-Za-z0-9]{30})|AIza(?=[\\w-]{30})',
  ].join('|')})[\\w.-]{1,8000}`,
  'g',
);

function maskToken(_: string, begin: string): string {
  return `${begin}${mask}`;
}

/** Up to the next line of dashes: a search for the end of each of many beginnings would take seconds. */
const privateKeys = /(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?:(?!-----)[\s\S]){1,20000}/g;
