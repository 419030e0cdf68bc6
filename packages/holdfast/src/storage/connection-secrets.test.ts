import { describe, expect, it } from 'vitest';
import { Secrets } from './connection-secrets.js';

function secretsOf(secret: unknown, ...shown: string[]): Secrets {
  const secrets = new Secrets();
  secrets.add(secret);
  for (const each of shown) secrets.addShown(each);
  return secrets;
}

const told = (secrets: Secrets, error: Error): Error => secrets.tell(error) as Error;

describe('secrets', () => {
  it('lets an error pass that repeats nothing of them', () => {
    const error = new Error('connect ECONNREFUSED 127.0.0.1:5432');
    expect(told(secretsOf('hunter2!'), error)).toBe(error);
  });

  it('withholds the whole text, because a mask in its middle would tell what it masks', () => {
    const error = Object.assign(new Error('password authentication failed'), { code: '28P01' });
    const { message } = told(secretsOf('passw0rd'), error);
    expect(message).toMatch(/^28P01, what it says is not shown/);
    expect(message).not.toMatch(/authentication|\*/);
  });

  it.each([
    ['detail', Object.assign(new Error('no'), { detail: 'near "hunter2"' })],
    ['cause', new Error('no', { cause: new Error('near "hunter2"') })],
    ['list of errors', new AggregateError([new Error('near "hunter2"')], 'no')],
    ['text of another case', new Error('near HUNTER2')],
    ['encoded text', new Error('near %68unter2')],
  ])('looks for them in a %s', (_, error) => {
    expect(told(secretsOf('%68unter2'), error)).not.toBe(error);
  });

  it('looks for keys of certificates and what else settings hold', () => {
    expect(told(secretsOf({ key: Buffer.from('-----hunter2') }), new Error('hunter')).message).toMatch(/not shown/);
  });

  it('does not hide a name that is shown anyway, so that nobody learns that the secret is the same', () => {
    const error = new Error('role "postgres" does not exist');
    expect(told(secretsOf('postgres', 'postgres'), error)).toBe(error);
    expect(told(secretsOf('postgres99', 'postgres'), new Error('"postgres99"')).message).toMatch(/not shown/);
  });

  it('takes a secret of less than four characters for one as well', () => {
    expect(told(secretsOf('q7'), new Error('near "q7"')).message).toMatch(/not shown/);
  });
});
