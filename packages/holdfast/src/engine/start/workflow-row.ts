import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type Codec, nativeCodecName } from '../../codec/codecs.js';
import { parseDuration } from '../../model/duration.js';
import { HoldfastError } from '../../model/errors.js';
import { newWorkflowId } from '../../model/ids.js';
import { isTerminal } from '../../model/status.js';
import { describeKey, sameKey, type WorkflowKey } from '../../model/workflow-key.js';
import type { NewWorkflow, WorkflowRecord } from '../../storage/contract/storage.js';
import type { WorkflowDefinition } from '../api/definition.js';
import { isDetached, type StartOptions } from '../api/start-options.js';
import type { Engine } from '../engine.js';
import type { Execution } from '../execution/execution.js';
import { authorize } from './authorization.js';

/** The members of a definition that a start needs. */
export type Startable = WorkflowKey &
  Pick<WorkflowDefinition, 'timeoutMs' | 'input' | 'serialization' | 'requireRole' | 'maxBytes'>;

/** A workflow of which only the name is known. A client, for example, has no definition. */
export function startableByName({ name, className, configName }: WorkflowKey): Startable {
  const unknown = { timeoutMs: null, input: undefined, requireRole: undefined, maxBytes: undefined };
  return { name, className, configName, ...unknown, serialization: 'native' };
}

/**
 * Builds the columns that all kinds of starts store. `deadlineAt` is the deadline of the parent, if there is one.
 * Throws if the user may not start the workflow.
 */
export async function commonRow(
  engine: Engine,
  workflow: Startable,
  options: StartOptions,
  args: readonly unknown[],
  parent: Execution | null,
): Promise<Omit<NewWorkflow, 'owner' | 'version'>> {
  const codec: Codec = workflow.serialization === 'portable' ? engine.codecs.portable : engine.codecs.native;
  const what = `The input of workflow "${workflow.name}"`;
  const createdAt = engine.clock.now();
  const { attributes, roles } = options;
  const { name, className, configName } = workflow;
  // The roles are encoded only to check the size limit, because every claim reads the roles. Roles from the parent have
  // already been checked.
  if (roles) await engine.codecs.portable.encode([...roles], `The roles of the start of workflow "${name}"`);
  return {
    workflowId: options.id ?? newWorkflowId(createdAt),
    ...{ name, className, configName },
    ...authorize(workflow, options, parent),
    inputs: await codec.encodeArguments(args, what, workflow.maxBytes),
    serialization: codec.name,
    createdAt,
    timeoutMs: timeoutOf(workflow, options),
    deadlineAt: isDetached(options) ? null : (parent?.claim.deadlineAt ?? null),
    attributes: attributes
      ? await engine.codecs.portable.encode(attributes, `The attributes of workflow "${workflow.name}"`)
      : null,
  };
}

function timeoutOf(workflow: Startable, { timeout }: StartOptions): number | null {
  if (timeout === null) return null;
  if (timeout === undefined) return workflow.timeoutMs;
  return parseDuration(timeout, `The timeout of workflow "${workflow.name}"`);
}

/**
 * Returns the arguments. If the workflow has an input schema, the schema checks and converts the first argument.
 * Authorization is checked first: a user who may not start the workflow learns nothing about its schema.
 */
export async function checkArguments(
  workflow: Startable,
  options: StartOptions,
  args: readonly unknown[],
  parent: Execution | null,
): Promise<readonly unknown[]> {
  authorize(workflow, options, parent);
  if (!workflow.input) return args;
  const result = await workflow.input['~standard'].validate(args[0]);
  if (!result.issues) return [result.value, ...args.slice(1)];
  throw schemaError('INVALID_INPUT', `The input of workflow "${workflow.name}"`, result.issues);
}

/** Returns the error that lists the issues a schema found. */
export function schemaError(
  code: 'INVALID_INPUT' | 'INVALID_OUTPUT',
  what: string,
  issues: readonly StandardSchemaV1.Issue[],
): HoldfastError {
  const lines = issues.map((issue) => {
    const path = issue.path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
    return path ? `${path}: ${issue.message}` : issue.message;
  });
  return new HoldfastError(code, `${what} does not match its schema: ${lines.join('; ')}`, {
    details: { issues: lines },
  });
}

/** The columns that a start would have stored if its ID had been new. */
type RepeatedStart = Pick<NewWorkflow, 'inputs' | 'serialization'>;

/**
 * Checks a start under an ID that already exists. The start counts as a repetition if both are of the same workflow;
 * otherwise it is an error.
 */
export function checkRepeatedStart(
  engine: Engine,
  workflow: WorkflowKey,
  repeated: RepeatedStart,
  existing: WorkflowRecord,
): void {
  if (!sameKey(existing, workflow)) {
    throw conflictError(existing.workflowId, describeKey(existing), describeKey(workflow));
  }
  warnOfOtherVersion(engine, existing);
  warnOfOtherArguments(engine, repeated, existing);
}

/**
 * Warns if a repeated start has other arguments. The ID is then not as unique as the user thinks, and, for example, a
 * second payment is never made. The check uses only the row that was read anyway. The warning leaves out the arguments,
 * which may be confidential. Custom formats are not compared, because such a format may write one value in several
 * ways.
 */
function warnOfOtherArguments(engine: Engine, repeated: RepeatedStart, existing: WorkflowRecord): void {
  const { workflowId, inputs, serialization } = existing;
  if (inputs === null || repeated.inputs === null || serialization !== repeated.serialization) return;
  if (serialization !== nativeCodecName && serialization !== engine.codecs.portable.name) return;
  if (inputs === repeated.inputs || withSortedKeys(inputs) === withSortedKeys(repeated.inputs)) return;
  engine.warnOnce(
    `other arguments of ${workflowId}`,
    `Workflow "${workflowId}" was started again with other arguments than the first time. An ID stands for one run: ` +
      'the caller got the first run, and the new arguments are ignored. Use a new ID for a new run.',
  );
}

/**
 * Returns the JSON text with sorted object keys. Texts over 100,000 characters are returned as they are, because
 * sorting them would cost too much.
 */
function withSortedKeys(json: string): string {
  if (json.length > 100_000) return json;
  const sorted = (_: string, value: unknown): unknown =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return JSON.stringify(JSON.parse(json), sorted);
}

/** Returns the error for a start under an ID that belongs to a different workflow. */
export function conflictError(workflowId: string, existing: string, requested: string): HoldfastError {
  return new HoldfastError(
    'WORKFLOW_CONFLICT',
    `Workflow ID "${workflowId}" belongs to "${existing}", so "${requested}" cannot use it. Choose another ID.`,
    { details: { workflowId, existing, requested } },
  );
}

/**
 * Warns if the existing workflow belongs to another version. This process must not run that workflow, so the caller may
 * wait forever.
 */
function warnOfOtherVersion(engine: Engine, existing: WorkflowRecord): void {
  if (engine.version === '' || isTerminal(existing.status)) return;
  if (existing.version === null || existing.version === engine.version) return;
  engine.logger.warn(
    `Workflow "${existing.workflowId}" was already started by version "${existing.version}" and is unfinished. This ` +
      `process is version "${engine.version}" and will not run it. The workflow waits for a process of its version.`,
  );
}
