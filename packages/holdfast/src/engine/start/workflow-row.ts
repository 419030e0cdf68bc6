import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type Codec, nativeCodecName } from '../../codec/codec.js';
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
import { identityOf } from './authorization.js';

/** What a start needs to know of a workflow. */
export type Startable = WorkflowKey &
  Pick<WorkflowDefinition, 'timeoutMs' | 'input' | 'serialization' | 'requireRole' | 'maxBytes'>;

/** A workflow of which no more is known than what it is called: a client's, say. */
export function byName({ name, className, configName }: WorkflowKey): Startable {
  const unknown = { timeoutMs: null, input: undefined, requireRole: undefined, maxBytes: undefined };
  return { name, className, configName, ...unknown, serialization: 'native' };
}

/**
 * What starts of every kind store alike. `deadlineAt` is the parent's, if it has one. Refuses who may not start the
 * workflow.
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
  // Every claim reads them. Those of a parent were within the limit.
  if (roles) await engine.codecs.portable.encode([...roles], `The roles of the start of workflow "${name}"`);
  return {
    workflowId: options.id ?? newWorkflowId(createdAt),
    ...{ name, className, configName },
    ...identityOf(workflow, options, parent),
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

/** The arguments as the workflow's schema, if it has one, makes them. Who may not start it learns nothing of it. */
export async function checkArguments(
  workflow: Startable,
  options: StartOptions,
  args: readonly unknown[],
  parent: Execution | null,
): Promise<readonly unknown[]> {
  identityOf(workflow, options, parent);
  if (!workflow.input) return args;
  const result = await workflow.input['~standard'].validate(args[0]);
  if (!result.issues) return [result.value, ...args.slice(1)];
  throw schemaError('INVALID_INPUT', `The input of workflow "${workflow.name}"`, result.issues);
}

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

/** What a start would have stored, had its ID not been taken. */
type Repeated = Pick<NewWorkflow, 'inputs' | 'serialization'>;

/** A start under a taken ID is the start that took it, if it was of the same workflow. */
export function checkSame(engine: Engine, workflow: WorkflowKey, repeated: Repeated, existing: WorkflowRecord): void {
  if (!sameKey(existing, workflow)) {
    throw conflictError(existing.workflowId, describeKey(existing), describeKey(workflow));
  }
  warnOfOtherVersion(engine, existing);
  warnOfOtherArguments(engine, repeated, existing);
}

/**
 * An ID that is not as unique as its user thinks: the second payment under it is never made. By what was read of the first
 * anyway, and without the values, which may be nobody's business. Formats of users may write one value in many ways.
 */
function warnOfOtherArguments(engine: Engine, repeated: Repeated, existing: WorkflowRecord): void {
  const { workflowId, inputs, serialization } = existing;
  if (inputs === null || repeated.inputs === null || serialization !== repeated.serialization) return;
  if (serialization !== nativeCodecName && serialization !== engine.codecs.portable.name) return;
  if (inputs === repeated.inputs || inOneOrder(inputs) === inOneOrder(repeated.inputs)) return;
  engine.warnOnce(
    `other arguments of ${workflowId}`,
    `Workflow "${workflowId}" was started again with other arguments than the first time. An ID is one run: the caller got the ` +
      'first one, and the new arguments are not used. Give another run another ID.',
  );
}

/** The same whatever the order of members. Long texts are not worth it. */
function inOneOrder(json: string): string {
  if (json.length > 100_000) return json;
  const sorted = (_: string, value: unknown): unknown =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return JSON.stringify(JSON.parse(json), sorted);
}

export function conflictError(workflowId: string, existing: string, requested: string): HoldfastError {
  return new HoldfastError(
    'WORKFLOW_CONFLICT',
    `Workflow ID "${workflowId}" belongs to "${existing}", so "${requested}" cannot use it. Choose another ID.`,
    { details: { workflowId, existing, requested } },
  );
}

/** The caller will wait for a workflow that this process must not run, perhaps for ever: that should not be silent. */
function warnOfOtherVersion(engine: Engine, existing: WorkflowRecord): void {
  if (engine.version === '' || isTerminal(existing.status)) return;
  if (existing.version === null || existing.version === engine.version) return;
  engine.logger.warn(
    `Workflow "${existing.workflowId}" was started before, by version "${existing.version}", and is unfinished. This ` +
      `process is version "${engine.version}" and will not run it: it waits for a process of that version.`,
  );
}
