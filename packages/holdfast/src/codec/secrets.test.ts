import { describe, expect, it } from 'vitest';
import { isSecretName, maskText } from './secrets.js';

describe('maskText', () => {
  it.each([
    ['connect to https://user:pa55@host:80/x failed', 'connect to https://***@host:80/x failed'],
    ['postgres://user:pa/ss@wo@rd@host/db', 'postgres://***@host/db'],
    ['https://ghp_abc@github.com/x.git', 'https://***@github.com/x.git'],
    ['GET https://x/y?page=2&api_key=abc&z=1 failed', 'GET https://x/y?page=2&api_key=***&z=1 failed'],
    ['https://b.example/c?sv=1&sig=a%2Fb', 'https://b.example/c?sv=1&sig=***'],
    ['got 401 for Bearer abc.def-ghi', 'got 401 for Bearer ***'],
    ['bearer sometoken', 'bearer ***'],
    ['authorized by Basic dXNlcjpwYXNz', 'authorized by Basic ***'],
    ['Server=x;Password=abc;User=y', 'Server=x;Password=***;User=y'],
    ['AccountKey=abc==;EndpointSuffix=core', 'AccountKey=***;EndpointSuffix=core'],
    ['{"password":"a\\"b","user":"x"}', '{"password":"***","user":"x"}'],
    ['{\\"client_secret\\":\\"a\\\\\\"b\\",\\"user\\":\\"x\\"}', '{\\"client_secret\\":\\"***\\",\\"user\\":\\"x\\"}'],
    ["{ Authorization: 'Basic x', 'x-api-key': 'abc', a: 1 }", "{ Authorization: '***', 'x-api-key': '***', a: 1 }"],
    ['Authorization: Bearer xyz\nHost: h', 'Authorization: ***\nHost: h'],
    ['Set-Cookie: sid=abc; Path=/\nHost: h', 'Set-Cookie: ***\nHost: h'],
    ['x-api-key: abcd1234', 'x-api-key: ***'],
    ['jwt malformed: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.ab-c_d, sorry', 'jwt malformed: eyJ***, sorry'],
    [`no repository for ghp_${'aB3'.repeat(12)}`, 'no repository for ghp_***'],
    [`Incorrect API key provided: sk-proj-${'aB3'.repeat(12)}.`, 'Incorrect API key provided: sk-***'],
    ['No such customer (sk_live_abcdef123456)', 'No such customer (sk_live_***)'],
    [
      '-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----',
      '-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----',
    ],
  ])('masks a well-known kind of secret: %j', (text, masked) => {
    expect(maskText(text)).toBe(masked);
  });

  it.each([
    'http://localhost:8080/users/ada@example.com',
    'at run (file:///app/node_modules/@scope/name@1.2.3/index.js:1:2)',
    'Bearer token is missing',
    'Bearer authentication is required',
    'Basic authentication failed',
    'Basic validation of the order failed',
    'Unexpected token \'x\', "abc" is not valid JSON',
    'Invalid password: must have 8 characters',
    'if (token == undefined) a = b',
    'The tokens of 3 users',
    'task sk-42 and sk-learn-extra-trees, xoxo, eyJ is how Base64 of JSON begins: eyJhbGciOiJIUzI1NiJ9',
    'disk-usage-of-the-whole-machine, ask_live_abcdef123456, /npm_modules/gh_pages',
  ])('does not change a text without a secret: %j', (text) => {
    expect(maskText(text)).toBe(text);
  });

  it('masks a private key that is too long or has no end', () => {
    const begin = '-----BEGIN RSA PRIVATE KEY-----';
    const key = `${begin}\n${'MIIE'.repeat(6_000)}`;
    expect(maskText(key)).toBe(`${begin}***${key.slice(begin.length + 20_000)}`);
    expect(maskText(`${begin}\nMIIE\n`)).toBe(`${begin}***`);
  });

  it('takes a time that grows only linearly with the length of the text', () => {
    const patterns = [
      '://a:',
      '@://x',
      '"a":',
      'bearer ',
      'a.',
      '"token":"\\',
      'token=',
      'cookie:a=',
      '-----BEGIN PRIVATE KEY-----',
    ];
    for (const pattern of patterns) expect(maskText(`@=:"${pattern.repeat(30_000)}`)).toBeTypeOf('string');
  });
});

describe('isSecretName', () => {
  it.each([
    ...['Authorization', 'proxy-authorization', 'cookie', 'Set-Cookie', 'password', 'PASSWD', 'dbPassword', 'secret'],
    ...[
      'token',
      'refresh_token',
      'X-Auth-Token',
      'api-key',
      'xApiKey',
      'X-API-KEY',
      'access_key',
      'AWS_SECRET_ACCESS_KEY',
    ],
    ...[
      'private_key',
      'clientSecret',
      'connectionString',
      'connection_string',
      'credentials',
      'passphrase',
      'auth',
      'jwt',
    ],
  ])('returns true for %s', (name) => {
    expect(isSecretName(name)).toBe(true);
  });

  it.each(['code', 'author', 'status', 'accessKeyId', 'tokenType', 'maxTokens', 'cookieName', 'secretary', 'key'])(
    'returns false for %s',
    (name) => {
      expect(isSecretName(name)).toBe(false);
    },
  );
});
