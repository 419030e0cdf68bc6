import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { FatalError, HoldfastError, isHoldfastError } from '../../src/index.js';
import { errorCodes } from '../../src/model/errors.js';

describe('error codes', () => {
  it('each have a section in docs/errors.md, which has no other sections', async () => {
    const text = await readFile(new URL('../../../../docs/errors.md', import.meta.url), 'utf8');
    const documented = [...text.matchAll(/^## `?([A-Z_]+)`?\s*$/gm)].map((match) => match[1]);
    expect(documented.sort()).toEqual(Object.keys(errorCodes).sort());
  });

  it('are recognized on errors of another copy of the package', async () => {
    const path = '../../src/model/errors.js?another-copy';
    const another = (await import(/* @vite-ignore */ path)) as typeof import('../../src/model/errors.js');
    const error = new another.HoldfastError('WORKFLOW_DEAD', 'from elsewhere', {
      details: { workflowId: 'w', status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' },
    });
    expect(error).not.toBeInstanceOf(HoldfastError);
    expect(isHoldfastError(error)).toBe(true);
    expect(isHoldfastError(error, 'WORKFLOW_DEAD')).toBe(true);
    expect(isHoldfastError(error, 'FATAL')).toBe(false);
    expect(isHoldfastError(new another.FatalError('no'), 'FATAL')).toBe(true);
  });

  it('are not found on foreign errors', () => {
    expect(isHoldfastError(new Error('x'))).toBe(false);
    expect(isHoldfastError(Object.assign(new Error('x'), { code: 'ENOENT' }))).toBe(false);
    expect(isHoldfastError({ code: 'FATAL', message: 'no error' })).toBe(false);
    // Callers read details.issues of errors with this code.
    expect(isHoldfastError(Object.assign(new Error('x'), { code: 'INVALID_INPUT' }), 'INVALID_INPUT')).toBe(false);
    const odd = Object.assign(new Error('x'), { code: 'INVALID_INPUT', details: null });
    expect(isHoldfastError(odd, 'INVALID_INPUT')).toBe(false);
    expect(isHoldfastError(undefined)).toBe(false);
    expect(new FatalError('x')).toMatchObject({ code: 'FATAL', name: 'FatalError', details: {} });
  });
});
