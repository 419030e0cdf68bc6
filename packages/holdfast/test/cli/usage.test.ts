import { readFileSync } from 'node:fs';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { command } from './command.js';

describe('the command holdfast', () => {
  beforeEach(() => {
    vi.stubEnv('HOLDFAST_DATABASE_URL', undefined);
    vi.stubEnv('DBOS_SYSTEM_DATABASE_URL', undefined);
    return () => vi.unstubAllEnvs();
  });

  it('prints its help and its version to standard output, and exits with 0', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    expect(await command('--version')).toEqual({ code: 0, out: `${version}\n`, err: '' });
    for (const args of [['--help'], ['schema', '--help'], ['migrate', '-h']]) {
      const { code, out, err } = await command(...args);
      expect([code, err]).toEqual([0, '']);
      expect(out).toMatch(/^Usage: holdfast/);
    }
  });

  it.each([
    [['shcema'], /unknown command 'shcema'\n\(Did you mean schema\?\)/],
    [['schema', '--grant', 'app'], /unknown option '--grant'\n\(Did you mean --grants\?\)/],
    [['schema', '--sqlite', '--grants', 'app'], /'--sqlite' cannot be used with option '--grants <role>'/],
    [['schema', '--sqlite', '--no-triggers'], /'--sqlite' cannot be used with option '--no-triggers'/],
    [['schema', '--sqlite', '--schema', 'x'], /'--sqlite' cannot be used with option '--schema <name>'/],
    [['schema', '--grants', ''], /name of the role is empty/],
    [['schema', '--schema', 'pg_mine'], /must be a name that does not begin with "pg_"/],
    [['migrate', 'postgres://localhost/x'], /too many arguments/],
    [['migrate', '--database'], /argument missing/],
    [['migrate'], /no database is named\. Set HOLDFAST_DATABASE_URL, or give --database <url>/],
    [[], /Usage: holdfast/],
  ] as const)('rejects %j, gives the reason on standard error, and prints nothing else', async (args, why) => {
    const { code, out, err } = await command(...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(why);
  });

  it('fails with the code of the error, and does not show the password', async () => {
    const url = 'postgres://app:hunter2@127.0.0.1:1/x';
    const { code, err } = await command('migrate', '--database', url);
    expect(code).toBe(1);
    expect(err).toMatch(
      /^error: DATABASE_UNREACHABLE: Postgres at postgres:\/\/app@127\.0\.0\.1:1\/x could not be opened/,
    );
    expect(err).not.toContain('hunter2');
  });

  const url = 'postgres://app:hunter2@127.0.0.1:1/x';
  it.each([
    [[`--database=${url}`, 'migrate'], /unknown option '--database=\.\.\.'/],
    [['migrate', `--databse=${url}`], /unknown option '--databse=\.\.\.'/],
    [['migrate', '--password=hunter2'], /unknown option '--password=\.\.\.'/],
    [['migrate', `-d${url}`], /unknown option '\.\.\.'/],
    [[url], /unknown command '\.\.\.'/],
    [['migrate', url], /too many arguments/],
    [['migrate', '--schema', 'x', `--triggers=${url}`], /unknown option '--triggers=\.\.\.'/],
    [['migrate', `--compat=${url}`], /argument '\.\.\.' is invalid.*shared, none/],
  ] as const)('repeats no value that it rejects: %j', async (args, why) => {
    const { code, out, err } = await command(...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(why);
    expect(err).not.toContain('hunter2');
  });
});
