import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Duration } from '../model/duration.js';
import type { WorkflowRecovery, WorkflowRecoveryOptions } from '../model/recovery.js';
import type { WorkflowKey } from '../model/workflow-key.js';

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
  /** Only who has one of these roles may start it; the first that matches becomes its assumed role. */
  readonly requireRole?: readonly string[];
}

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
}
