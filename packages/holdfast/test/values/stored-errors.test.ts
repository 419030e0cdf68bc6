import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import { connect, run, sleep, transaction, workflow } from '../../src/index.js';
import type { TestAppOptions } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, gate, recordingLogger, tamper } from '../support/faults.js';
import { openUserData } from '../support/user-data.js';

const secret = 's3cr3t';

/** An error like those of HTTP clients, with the whole request and response. */
function httpError(): Error {
  const headers = { Authorization: `Bearer ${secret}`, 'x-tenant-signing': secret };
  const response = { status: 402, headers: { 'set-cookie': [secret] }, data: { reason: 'declined', token: secret } };
  const message = `POST https://shop:${secret}@bank.example/pay?api_key=${secret} failed with "Bearer ${secret}"`;
  const error = Object.assign(new Error(message), { status: 402, config: { headers }, response, password: secret });
  return Object.assign(new TypeError(message, { cause: error }), { config: { headers, data: secret }, code: 'E_HTTP' });
}

const throwing = (): never => {
  throw httpError();
};

const tables = ['workflow_status', 'operation_outputs'];

// SECURITY.md: stored errors carry no secrets by default.
describeBackends('the secrets of an error', (backend) => {
  /** Runs a workflow that meets every kind of failure, one after the other, and fails with the last one. */
  async function failEverywhere(options: TestAppOptions = {}) {
    const data = await openUserData(backend, plainest[backend.name]);
    const pay = transaction(data.datasource, 'pay in a transaction', throwing);
    const child = workflow('child', throwing);
    const looseEnd = gate();
    const wf = workflow('wf', async () => {
      const retryIf = (): never => throwing();
      await failure(run('retried', throwing, { retries: { max: 1, initial: 1 } }));
      await failure(run('not retried', throwing, { retries: { max: 1, initial: 1, retryIf } }));
      await failure(run('a text', () => Promise.reject(`Basic ${btoa(`shop:${secret}`)} was refused`)));
      await failure(run('an object', () => Promise.reject({ status: 402, config: { auth: secret }, token: secret })));
      await run('settled', () => Promise.allSettled([httpError()].map((error) => Promise.reject(error))));
      await failure(child());
      await failure(pay());
      void run('left behind', () => looseEnd.promise.then(throwing));
      return run('the end of it', throwing);
    });
    const logger = recordingLogger();
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf, child], database, logger, ...options });
    await t.clock.runUntil(failure(wf.with({ id: 'w' })()));
    looseEnd.open();
    await t.clock.advance('1s');
    const rows = [...(await Promise.all(tables.map((table) => tamper(database, `select * from ${table}`)))).flat()];
    rows.push(...(await tamper(data.url, 'select * from transaction_completion')));
    return { t, rows: rows.map((row) => JSON.stringify(row)), lines: logger.lines };
  }

  it.each([undefined, { keep: 'all' }] as const)('appear in no row and in no log line: %j', async (errors) => {
    // With `keep`, a secret stays if its property name is unknown. By default such nested objects are not stored.
    const { t, rows, lines } = await failEverywhere(errors && { errors });
    const unknownName = errors === undefined ? [] : ['"data":"s3cr3t"', '"x-tenant-signing":"s3cr3t"'];
    const clean = (row: string): string =>
      unknownName.reduce((text, each) => text.replaceAll(JSON.stringify(each).slice(1, -1), ''), row);
    for (const row of rows) expect(clean(row)).not.toContain(secret);
    for (const line of lines) expect(line).not.toContain(secret);
    expect(lines.join('\n')).toMatch(/Step "retried".*bank\.example\/pay/);
    expect(lines.join('\n')).toMatch(/did not await step \d+ "left behind"/);
    expect(lines.join('\n')).toMatch(/retryIf of step "not retried" threw/);
    const { error } = (await t.app.workflows.get('w')) ?? {};
    expect(error).toMatchObject({ name: 'TypeError', code: 'E_HTTP', cause: { status: 402, password: '***' } });
    expect(await t.app.workflows.steps('w')).toHaveLength(9);
  });

  it('can also be removed by `redact`, which sees every record and every log line', async () => {
    const seen = new Set<string>();
    const { rows, lines } = await failEverywhere({
      errors: {
        redact: (error, use) => {
          seen.add(use);
          return { ...error, message: error.message.replaceAll('bank.example', '(bank)'), stack: '' };
        },
      },
    });
    for (const text of [...rows, ...lines]) expect(text).not.toContain('bank.example');
    expect([...seen].sort()).toEqual(['log', 'record']);
  });

  it('do not appear in the log lines of a client either', async () => {
    const database = await backend.newDatabase();
    const logger = recordingLogger();
    const client = await connect({ database, name: `app token=${secret}`, logger });
    await client.close();
    expect(logger.lines).toHaveLength(1);
    expect(logger.lines.join()).not.toContain(secret);
    await expect(connect({ database, errors: { keep: 5 as never } })).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  });
});

// P7. Replay is exact. Decision 2: the code sees an error as it is recorded.
describeBackends('an error with nested objects', (backend) => {
  /** Returns the error as the code sees it: live, and in the replay after a crash. */
  async function seenTwice(options: TestAppOptions, thrown: () => unknown, meanwhile?: (database: string) => unknown) {
    const seen: unknown[] = [];
    let charged = 0;
    const wf = workflow('wf', async () => {
      seen.push(
        await run('charge', () => {
          charged++;
          throw thrown();
        }).catch((error: unknown) => error),
      );
      await sleep('1h');
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database, ...options });
    await wf.with({ id: 'w' }).start();
    await t.clock.advance('1m');
    await meanwhile?.(database);
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle('w').result());
    expect(charged).toBe(1);
    expect(seen).toHaveLength(2);
    return seen as [Record<string, unknown>, Record<string, unknown>];
  }

  it('loses them in the first run and in a replay, and lists the names of the omitted ones', async () => {
    const [live, replayed] = await seenTwice({}, httpError);
    expect(inspect(replayed, { depth: 9 })).toBe(inspect(live, { depth: 9 }));
    expect(live).toMatchObject({ code: 'E_HTTP', holdfast_omitted: ['config'] });
    expect(live.cause).toMatchObject({ status: 402, holdfast_omitted: ['config', 'response'] });
  });

  it('keeps the ones listed in `keep`, in the first run and in a replay', async () => {
    const [live, replayed] = await seenTwice({ errors: { keep: ['response.data'] } }, httpError);
    expect(inspect(replayed, { depth: 9 })).toBe(inspect(live, { depth: 9 }));
    expect(live.cause).toMatchObject({ response: { data: { reason: 'declined', token: '***' } } });
  });

  it('is read in full from a row that an older release or DBOS has written', async () => {
    const error = { name: 'AxiosError', message: 'no', stack: 'S', response: { data: { password: 'x', list: [{}] } } };
    const text = JSON.stringify({ json: error, __dbos_serializer: 'superjson' });
    const [, replayed] = await seenTwice({}, httpError, (database) =>
      tamper(database, `update operation_outputs set error = '${text}' where function_name = 'charge'`),
    );
    expect(replayed).toMatchObject(error);
  });

  it.each([
    ['throws', throwing],
    ['rejects', () => Promise.reject(httpError())],
  ])('is recorded as a placeholder if `redact` %s, and its step does not run again (P2)', async (_, redact) => {
    const [live, replayed] = await seenTwice({ errors: { redact: redact as never } }, httpError);
    expect(inspect(replayed)).toBe(inspect(live));
    expect(live).toMatchObject({ code: 'ERROR_WITHHELD', message: /its error is withheld: `redact` / });
    expect(inspect(live)).not.toContain(secret);
  });
});
