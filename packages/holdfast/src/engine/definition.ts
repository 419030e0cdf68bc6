import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Duration } from '../model/duration.js';

/** Options of `workflow(name, fn, options)`. */
export interface WorkflowOptions {
  /** How often the workflow may be tried again after its first start (default 100). */
  readonly maxRecoveryAttempts?: number;
  /** Start-to-completion. At the deadline the workflow and its children are cancelled. */
  readonly timeout?: Duration;
  /** A Standard Schema (zod, valibot, arktype, ...) for the first argument: checked before anything is stored. */
  readonly input?: StandardSchemaV1;
  /** A Standard Schema for the returned value. */
  readonly output?: StandardSchemaV1;
  /** `portable`: plain JSON that DBOS clients of every language read (default `native`). */
  readonly serialization?: 'native' | 'portable';
}

/** A workflow as the engine sees it. */
export interface WorkflowDefinition {
  readonly name: string;
  readonly fn: (...args: never[]) => unknown;
  readonly maxRecoveryAttempts: number;
  readonly timeoutMs: number | null;
  readonly input: StandardSchemaV1 | undefined;
  readonly output: StandardSchemaV1 | undefined;
  readonly serialization: 'native' | 'portable';
}
