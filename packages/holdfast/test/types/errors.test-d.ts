import { expectTypeOf } from 'vitest';
import {
  type ErrorCode,
  type ErrorDetails,
  FatalError,
  HoldfastError,
  type HoldfastErrorOf,
  isHoldfastError,
} from '../../src/index.js';

/** The types that the compiler knows for the details of errors. Nothing here runs: `npm run check` compiles it. */

export function ofOneCode(error: unknown): void {
  if (isHoldfastError(error, 'WORKFLOW_CONFLICT')) {
    expectTypeOf(error).toEqualTypeOf<HoldfastErrorOf<'WORKFLOW_CONFLICT'>>();
    expectTypeOf(error.code).toEqualTypeOf<'WORKFLOW_CONFLICT'>();
    expectTypeOf(error.details.workflowId).toEqualTypeOf<string>();
    expectTypeOf(error.details.existing).toEqualTypeOf<string>();
    expectTypeOf(error.message).toEqualTypeOf<string>();
    // @ts-expect-error: no such field
    void error.details.workflowID;
  }
  if (isHoldfastError(error, 'QUEUE_NOT_EMPTY')) expectTypeOf(error.details.count).toEqualTypeOf<number>();
  // @ts-expect-error: no details at all
  if (isHoldfastError(error, 'APP_CLOSED')) void error.details.workflowId;
  // @ts-expect-error: no such code
  isHoldfastError(error, 'WORKFLOW_CONFLICTS');
}

export function ofAnyCode(error: unknown): string {
  if (!isHoldfastError(error)) return '';
  expectTypeOf(error.code).toEqualTypeOf<ErrorCode>();
  // The error can be assigned to HoldfastError, and its details are a record.
  const ours: HoldfastError = error;
  expectTypeOf(ours.details).toEqualTypeOf<Readonly<Record<string, unknown>>>();
  switch (error.code) {
    case 'RESULT_TIMEOUT':
      expectTypeOf(error.details.timeoutMs).toEqualTypeOf<number>();
      return error.details.workflowId;
    case 'DATABASE_FAILED':
      expectTypeOf(error.details.applied).toEqualTypeOf<'no' | 'unknown'>();
      return error.details.statement;
    default:
      // @ts-expect-error: not every code has this field
      return error.details.workflowId;
  }
}

export function ofAnErrorOfOurs(error: HoldfastError | FatalError, code: 'INVALID_INPUT' | 'INVALID_OUTPUT'): void {
  if (isHoldfastError(error, code)) expectTypeOf(error.details.issues).toEqualTypeOf<readonly string[]>();
  if (isHoldfastError(error, 'FATAL')) expectTypeOf(error.details.card).toEqualTypeOf<unknown>();
  expectTypeOf<keyof ErrorDetails>().toEqualTypeOf<ErrorCode>();
}

export function made(): HoldfastError[] {
  return [
    new HoldfastError('APP_CLOSED', 'closed'),
    new HoldfastError('NOT_LAUNCHED', 'not launched', { cause: 1 }),
    new HoldfastError('QUEUE_NOT_EMPTY', 'not empty', { details: { name: 'q', count: 1 } }),
    new FatalError('expired', { details: { card: 7 } }),
    // @ts-expect-error: a field that the code does not have
    new HoldfastError('STREAM_CLOSED', 'closed', { details: { workflowId: 'w', stream: 's' } }),
    // @ts-expect-error: a field of another type
    new HoldfastError('QUEUE_NOT_EMPTY', 'not empty', { details: { name: 'q', count: '1' } }),
    // @ts-expect-error: without its details
    new HoldfastError('QUEUE_NOT_EMPTY', 'not empty'),
    // @ts-expect-error: a code without details
    new HoldfastError('APP_CLOSED', 'closed', { details: { workflowId: 'w' } }),
  ];
}
