import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Duration } from '../../model/duration.js';
import type { WorkflowRecovery, WorkflowRecoveryOptions } from '../../model/recovery.js';
import type { WorkflowKey } from '../../model/workflow-key.js';

/** Options of `workflow(name, fn, options)`. */
export interface WorkflowOptions {
  /** How often the workflow may be tried again after its first start (default 100): `recovery.maxAttempts`. */
  readonly maxRecoveryAttempts?: number;
  /** What becomes of a run whose process died, where that is to differ from `launch({ recovery })`. */
  readonly recovery?: WorkflowRecoveryOptions;
  /** `false`: a run whose process died is set aside as STALLED until someone resumes it (default true). */
  readonly resumable?: boolean;
  /** Start-to-completion. At the deadline the workflow and its children are cancelled. */
  readonly timeout?: Duration;
  /** A Standard Schema (zod, valibot, arktype, ...) for the first argument: checked before anything is stored. */
  readonly input?: StandardSchemaV1;
  /** A Standard Schema for the returned value. */
  readonly output?: StandardSchemaV1;
  /** `portable`: plain JSON that DBOS clients of every language read (default `native`). */
  readonly serialization?: 'native' | 'portable';
  /** Most bytes of the input, and of the result, as they are stored. Default: that of `launch` or `connect`. */
  readonly maxValueBytes?: number;
  /** Only who has one of these roles may start it; the first that matches becomes its assumed role. */
  readonly requireRole?: readonly string[];
}

/** The same, with the schemas that were given. */
export interface SchemaOptions<In, Out> extends Omit<WorkflowOptions, 'input' | 'output'> {
  readonly input?: In;
  readonly output?: Out;
}

/** The arguments of the function: the first is what the input schema, if there is one, makes of the caller's. */
export type Taken<In extends MaybeSchema, Args extends unknown[]> = [In] extends [undefined]
  ? Args
  : [input: StandardSchemaV1.InferOutput<NonNullable<In>>, ...rest: Tail<Args>];

type Tail<Args extends unknown[]> = Args extends [unknown?, ...infer Rest] ? Rest : [];

/**
 * What the function returns: with an output schema, what that takes. Promise is named beside PromiseLike because the compiler
 * then says of an async function which member does not fit, and nothing about `then`.
 */
export type Returned<Out extends MaybeSchema, Result> = [Out] extends [undefined] ? Result : Awaitable<Given<Out>>;

type Given<Out extends MaybeSchema> = Widened<StandardSchemaV1.InferInput<NonNullable<Out>>>;

/**
 * Any text for 'paid', any list for a tuple: a function that returns `{ state: 'paid' }` returns a text to the compiler, since it
 * infers the function before it looks at the schema. Which text it is, the schema checks when the workflow ends.
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

/** Nothing in them could be wider. */
type Whole = bigint | symbol | null | undefined | Date | RegExp | Error | Uint8Array | ((...args: never[]) => unknown);

type Awaitable<T> = T | Promise<T> | PromiseLike<T>;

/** What callers get: with an output schema, what that makes of the result. */
export type Ended<Out extends MaybeSchema, Result> = [Out] extends [undefined]
  ? Awaited<Result>
  : StandardSchemaV1.InferOutput<NonNullable<Out>>;

type MaybeSchema = StandardSchemaV1 | undefined;

/** A workflow as the engine sees it. */
export interface WorkflowDefinition extends WorkflowKey {
  readonly fn: (...args: never[]) => unknown;
  /** The code as the user wrote it, which a version is made of: `fn` may be bound to an instance. */
  readonly source: string;
  readonly recovery: WorkflowRecovery;
  readonly timeoutMs: number | null;
  readonly input: StandardSchemaV1 | undefined;
  readonly output: StandardSchemaV1 | undefined;
  readonly serialization: 'native' | 'portable';
  readonly requireRole: readonly string[] | undefined;
  readonly maxBytes: number | undefined;
}
