import { describe, expect, it } from 'vitest';
import { Secrets } from './connection-secrets.js';

function secretsOf(secret: unknown, ...shown: string[]): Secrets {
  const secrets = new Secrets();
  secrets.add(secret);
  for (const each of shown) secrets.addShown(each);
  return secrets;
}

const masked = (secrets: Secrets, error: Error): Error => secrets.redact(error) as Error;

describe('secrets', () => {
  it('returns an error that repeats no secret unchanged', () => {
    const error = new Error('connect ECONNREFUSED 127.0.0.1:5432');
    expect(masked(secretsOf('hunter2!'), error)).toBe(error);
  });

  it('hides the whole text, because a gap in the text would reveal the secret', () => {
    const error = Object.assign(new Error('password authentication failed'), { code: '28P01' });
    const { message } = masked(secretsOf('passw0rd'), error);
    expect(message).toMatch(/^28P01: the message is not shown/);
    expect(message).not.toMatch(/authentication|\*/);
  });

  it.each([
    ['detail', Object.assign(new Error('no'), { detail: 'near "hunter2"' })],
    ['cause', new Error('no', { cause: new Error('near "hunter2"') })],
    ['list of errors', new AggregateError([new Error('near "hunter2"')], 'no')],
    ['text in another case', new Error('near HUNTER2')],
    ['encoded text', new Error('near %68unter2')],
  ])('finds secrets in a %s', (_, error) => {
    expect(masked(secretsOf('%68unter2'), error)).not.toBe(error);
  });

  it('finds the keys of certificates and other values of settings', () => {
    expect(masked(secretsOf({ key: Buffer.from('-----hunter2') }), new Error('hunter')).message).toMatch(/not shown/);
  });

  it('does not hide a name that is shown anyway, because hiding it would reveal that the secret is the same', () => {
    const error = new Error('role "postgres" does not exist');
    expect(masked(secretsOf('postgres', 'postgres'), error)).toBe(error);
    expect(masked(secretsOf('postgres99', 'postgres'), new Error('"postgres99"')).message).toMatch(/not shown/);
  });

  it('also finds a secret of fewer than four characters', () => {
    expect(masked(secretsOf('q7'), new Error('near "q7"')).message).toMatch(/not shown/);
  });
});
