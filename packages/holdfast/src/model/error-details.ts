import type { WorkflowStatus } from './status.js';

/**
 * The `details` of an error, by its code. `isHoldfastError(error, code)` narrows the details to these types. Only some
 * errors of a code have the fields with a `?`. Released fields keep their names and meaning. An error that an older
 * release stored lacks the newer fields.
 *
 * The members are type literals and not interfaces, because only literals can be assigned to the `details` of
 * HoldfastError.
 */
export interface ErrorDetails {
  APP_CLOSED: NoDetails;
  AMBIGUOUS_APP: { readonly name?: string };
  CLOCK_HELD: {
    readonly step: string;
    readonly workflowId: string;
    readonly workflow: string;
    readonly attempt: number;
    readonly patienceMs: number;
  };
  /** `recorded` is null if no layout has been chosen for the database yet. */
  COMPAT_CONFLICT: { readonly asked: string; readonly recorded: string | null };
  DATABASE_FAILED: { readonly statement: string; readonly applied: 'no' | 'unknown' };
  DATABASE_MISSING: { readonly database: string };
  /** `url` is the URL of a Postgres server without its password; `path` is the path of a SQLite file. */
  DATABASE_UNREACHABLE: { readonly url?: string; readonly path?: string };
  DATABASE_URL_INVALID: { readonly scheme?: string | null };
  DRIVER_MISSING: NoDetails;
  /** `name` is the name of a workflow. `className` and `configName` are the two names of an instance. */
  DUPLICATE_WORKFLOW: { readonly name?: string; readonly className?: string; readonly configName?: string };
  ERROR_WITHHELD: NoDetails;
  /** The details that your step passed to FatalError. */
  FATAL: Readonly<Record<string, unknown>>;
  INBOX_FULL: {
    readonly workflowId: string;
    readonly waiting: number;
    readonly bytes: number;
    readonly maxWaiting: number;
    readonly maxWaitingBytes: number;
  };
  INVALID_CRON: { readonly expression: unknown };
  INVALID_DURATION: { readonly value: unknown };
  INVALID_INPUT: { readonly issues: readonly string[] };
  INVALID_NAME: {
    readonly name?: unknown;
    readonly known?: readonly string[];
    readonly taken?: readonly string[];
    readonly registeredAs?: string;
  };
  INVALID_OPTION: {
    readonly option?: string;
    readonly value?: unknown;
    readonly known?: readonly string[];
    readonly operation?: string;
    readonly name?: string;
    readonly stub?: string;
    readonly steps?: readonly string[];
  };
  INVALID_OUTPUT: { readonly issues: readonly string[] };
  INVALID_TIMEZONE: { readonly timezone: unknown };
  MIGRATION_REQUIRED: {
    readonly found?: { readonly shared: number; readonly own: number };
    readonly needed?: { readonly shared: number; readonly own: number };
    readonly reason?: 'foreign-numbering';
    readonly contradiction?: string;
    readonly schema?: string;
  };
  /** `recorded` is the step in the history under this number; `requested` is the step that the code called. */
  NON_DETERMINISM: {
    readonly workflowId: string;
    readonly name: string;
    readonly stepNumber?: number;
    readonly recorded?: string | undefined;
    readonly requested?: string;
    readonly stepCount?: number;
    readonly diff?: string | undefined;
  };
  NOT_AUTHORIZED: {
    readonly name: string;
    readonly user: string | null;
    readonly roles: readonly string[];
    readonly required: readonly string[];
  };
  NOT_IN_WORKFLOW: NoDetails;
  NOT_LAUNCHED: { readonly name?: string };
  QUEUE_CONFLICT: { readonly name: string; readonly owner: string | null };
  /** `workflowId` and `name` belong to the workflow that is on the queue already. */
  QUEUE_DUPLICATE: {
    readonly queueName: string;
    readonly dedupId: string;
    readonly workflowId: string;
    readonly name: string;
  };
  QUEUE_NOT_EMPTY: { readonly name: string; readonly count: number };
  RESULT_TIMEOUT: { readonly workflowId: string; readonly timeoutMs: number };
  /** At launch, `missing` lists each missing right, and `grants` lists the statements that grant all of them. */
  RIGHTS_MISSING: {
    readonly statement?: string;
    readonly schema?: string;
    readonly role?: string;
    readonly missing?: readonly string[];
    readonly grants?: readonly string[];
  };
  SCHEDULE_CONFLICT: { readonly name: string; readonly owner: string | null };
  SCHEDULE_EXISTS: { readonly name: string };
  SCHEDULE_NOT_FOUND: { readonly name: string; readonly known: readonly string[] };
  /** At launch, `problems` has one entry for each wrong table or column. */
  SCHEMA_MISMATCH: { readonly statement?: string; readonly problems?: readonly string[] };
  SCHEMA_TOO_NEW: { readonly found: number; readonly known: number; readonly oldestCode: number | null };
  SQLITE_COPIES: { readonly path: string };
  STEP_ATTEMPTS_EXHAUSTED: {
    readonly workflowId: string;
    readonly step: string;
    readonly attempts: number;
    readonly interrupted: readonly number[];
  };
  STEP_NAME_CLASH: { readonly name: string };
  STEP_TIMEOUT: {
    readonly step: string;
    readonly workflowId: string;
    readonly timeoutMs: number;
    readonly attempt: number;
  };
  STORAGE_REFUSED: NoDetails;
  STREAM_CLOSED: { readonly workflowId: string };
  UNKNOWN_SERIALIZER: { readonly serialization: string; readonly known: readonly string[] };
  UNKNOWN_QUEUE: { readonly name: string; readonly known: readonly string[] };
  UNREADABLE_VALUE: { readonly format: string; readonly text: string };
  /** `path` is the path to the part of the value that cannot be stored. */
  UNSERIALIZABLE: {
    readonly what?: string;
    readonly path?: string;
    readonly problem?: string;
    readonly serializer?: string;
    readonly unread?: true;
  };
  UNSUPPORTED_CALL: { readonly name?: string; readonly releases?: readonly string[] };
  VALUE_TOO_LARGE: { readonly what: string; readonly bytes: number; readonly maxBytes: number };
  WORKFLOW_CANCELLED: { readonly workflowId: string; readonly reason: string | null };
  /**
   * `existing` is the name of the workflow that has the ID; `requested` is the name of the workflow to be started. For
   * a fork, `forkedFrom` is the original.
   */
  WORKFLOW_CONFLICT: {
    readonly workflowId: string;
    readonly existing: string;
    readonly requested?: string;
    readonly forkedFrom?: string;
  };
  WORKFLOW_DEAD: { readonly workflowId: string; readonly status: WorkflowStatus };
  WORKFLOW_ENDED: { readonly workflowId: string; readonly status: WorkflowStatus };
  WORKFLOW_NEEDED: {
    readonly kind: 'child' | 'needed';
    readonly workflowId: string;
    readonly parentWorkflowId?: string;
    readonly by?: string;
  };
  /** For messages, at least one of the recipients `workflowIds` does not exist. Lists at most 100 IDs. */
  WORKFLOW_NOT_FOUND: { readonly workflowId?: string; readonly workflowIds?: readonly string[] };
  WORKFLOW_NOT_REGISTERED: { readonly name: string };
  WORKFLOW_NOT_RESUMABLE: { readonly workflowId: string; readonly status: WorkflowStatus };
  /** `repeated` lists the steps after the failed step, which a retry might run again. */
  WORKFLOW_NOT_RETRYABLE: {
    readonly workflowId: string;
    readonly status: WorkflowStatus;
    readonly stepNumber?: number;
    readonly failedStep?: number;
    readonly repeated?: readonly { readonly stepNumber: number; readonly name: string }[];
  };
  WORKFLOW_STALLED: { readonly workflowId: string; readonly name?: string; readonly reason?: string | null };
  WORKFLOW_UNFINISHED: { readonly workflowId: string; readonly status: WorkflowStatus; readonly kind: 'unfinished' };
}

type NoDetails = Readonly<Record<never, unknown>>;
