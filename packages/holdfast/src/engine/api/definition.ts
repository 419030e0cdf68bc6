import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Duration } from '../../model/duration.js';
import type { WorkflowRecovery, WorkflowRecoveryOptions } from '../../model/recovery.js';
import type { WorkflowKey } from '../../model/workflow-key.js';

/** Options of `workflow(name, fn, options)`. */
export interface WorkflowOptions {
  /** Maximum number of recoveries after the first start (default 100). Another name for `recovery.maxAttempts`. */
  readonly maxRecoveryAttempts?: number;
  /** Recovery of runs whose process died, where it differs from `launch({ recovery })`. */
  readonly recovery?: WorkflowRecoveryOptions;
  /** `false`: if the process of a run dies, the run becomes STALLED until someone resumes it (default true). */
  readonly resumable?: boolean;
  /**
   * Time limit from start to completion (default: none). At the deadline, the workflow and its children are cancelled.
   */
  readonly timeout?: Duration;
  /**
   * A Standard Schema (zod, valibot, arktype, ...) for the first argument, checked before anything is stored. The
   * function gets the value that the schema returns.
   */
  readonly input?: StandardSchemaV1;
  /** A Standard Schema for the returned value. The stored result is the value that the schema returns. */
  readonly output?: StandardSchemaV1;
  /**
   * Format of stored values: `portable` is plain JSON, readable for DBOS clients of every language (default `native`).
   */
  readonly serialization?: 'native' | 'portable';
  /**
   * Maximum size in bytes of the stored input, and of the stored result. Default: the `maxValueBytes` of `launch` or
   * `connect`.
   */
  readonly maxValueBytes?: number;
  /**
   * Roles that may start the workflow: the start must have at least one of them in `with({ roles })`. The first role of
   * this list that the start has becomes the `assumedRole`.
   */
  readonly requireRole?: readonly string[];
}

/** `WorkflowOptions` with the types of the given schemas. */
export interface SchemaOptions<In, Out> extends Omit<WorkflowOptions, 'input' | 'output'> {
  readonly input?: In;
  readonly output?: Out;
}

/** The arguments of the function. With an input schema, the first argument has the type that the schema returns. */
export type FunctionArguments<In extends MaybeSchema, Args extends unknown[]> = [In] extends [undefined]
  ? Args
  : [input: StandardSchemaV1.InferOutput<NonNullable<In>>, ...rest: Tail<Args>];

type Tail<Args extends unknown[]> = Args extends [unknown?, ...infer Rest] ? Rest : [];

/**
 * The return type of the function. With an output schema, it is the type that the schema accepts. The type names
 * Promise beside PromiseLike. The compiler then reports which member of an async result does not fit, instead of a
 * problem with `then`.
 */
export type FunctionResult<Out extends MaybeSchema, Result> = [Out] extends [undefined]
  ? Result
  : Awaitable<Given<Out>>;

type Given<Out extends MaybeSchema> = Widened<StandardSchemaV1.InferInput<NonNullable<Out>>>;

/**
 * Widens literal types: any string for 'paid', any list for a tuple. The compiler infers the function before it
 * considers the schema, so it infers `string` for the member of a function that returns `{ state: 'paid' }`. The schema
 * checks the exact string when the workflow ends.
 */
type Widened<T> = T extends string
  ? string
  : T extends number
    ? number
    : T extends boolean
      ? boolean
      : T extends readonly (infer Each)[]
        ? readonly Widened<Each>[]
        : T extends Whole
          ? T
          : { [Key in keyof T]: Widened<T[Key]> };

/** Types that have nothing to widen. */
type Whole = bigint | symbol | null | undefined | Date | RegExp | Error | Uint8Array | ((...args: never[]) => unknown);

type Awaitable<T> = T | Promise<T> | PromiseLike<T>;

/** The type of the result for callers. With an output schema, it is the type that the schema returns. */
export type WorkflowResult<Out extends MaybeSchema, Result> = [Out] extends [undefined]
  ? Awaited<Result>
  : StandardSchemaV1.InferOutput<NonNullable<Out>>;

type MaybeSchema = StandardSchemaV1 | undefined;

/** A workflow as the engine sees it. */
export interface WorkflowDefinition extends WorkflowKey {
  readonly fn: (...args: never[]) => unknown;
  /**
   * Source text of the user's function, from which the version is computed. `fn` may be a bound function without this
   * text.
   */
  readonly source: string;
  readonly recovery: WorkflowRecovery;
  readonly timeoutMs: number | null;
  readonly input: StandardSchemaV1 | undefined;
  readonly output: StandardSchemaV1 | undefined;
  readonly serialization: 'native' | 'portable';
  readonly requireRole: readonly string[] | undefined;
  readonly maxBytes: number | undefined;
}
