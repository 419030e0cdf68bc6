import { expect, it, onTestFinished } from 'vitest';
import { launch, run, workflow } from '../../src/index.js';
import { isHoldfastError } from '../../src/model/errors.js';
import { describeBackends, silent } from '../support/backends.js';
import { openProxy } from './proxy.js';

/** The statement of a launch at which the connection breaks. Most statements of a launch belong to migrations. */
const places = [1, 2, 5, 9, 17, 33];

const greet = workflow('greet', () => run('compose', () => 'hello'));

describeBackends(
  'a launch whose connection breaks',
  (backend) => {
    it.each(['cut-before', 'cut-after'] as const)(
      'fails with a typed error at any statement, even during migrations, and a second launch succeeds (%s)',
      async (kind) => {
        const codes = new Set<string>();
        for (const nth of places) {
          const proxy = await openProxy(await backend.emptyDatabase());
          onTestFinished(() => proxy.close());
          const fault = proxy.arm({ kind, at: /./, nth });
          const options = { name: 'test', database: proxy.url, workflows: [greet], logger: silent };
          const broken = await launch(options).catch((error: unknown) => error);
          expect(fault.count).toBe(1);
          if (isHoldfastError(broken)) codes.add(broken.code);
          else expect(broken, `at statement ${nth}: ${proxy.statements.at(nth - 1)}`).not.toBeInstanceOf(Error);
          // A failure after the migrations does not fail the launch, because the services retry their statements.
          if (!(broken instanceof Error)) await (broken as Awaited<ReturnType<typeof launch>>).shutdown();
          const app = await launch(options);
          expect(await greet()).toBe('hello');
          await app.shutdown();
        }
        expect([...codes].filter((code) => code !== 'DATABASE_FAILED')).toEqual(['DATABASE_UNREACHABLE']);
      },
      180_000,
    );
  },
  ['postgres'],
);
