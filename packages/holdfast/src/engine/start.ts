import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type Codec, nativeCodecName } from '../codec/codec.js';
import { isPrimitive } from '../codec/format.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { HoldfastError } from '../model/errors.js';
import { checkName, newWorkflowId } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { isTerminal } from '../model/status.js';
import type { NewWorkflow, WorkflowRecord } from '../storage/storage.js';
import type { Started } from './checkpoints.js';
import { enter, stepScope } from './context.js';
import type { WorkflowDefinition } from './definition.js';
import type { Engine } from './engine.js';
import type { Execution } from './execution.js';
import { type Outcome, onceAt } from './once.js';

/** How a workflow is started. */
export interface StartOptions {
  /** The workflow's ID, and its idempotency key: a second start under it is the first one. Default: a new UUID. */
  readonly id?: string;
  /** Start-to-completion, over the workflow's own default. `null`: none, and a child is detached from its parent. */
  readonly timeout?: Duration | null;
  /** Which of several running apps is to run it. */
  readonly app?: object;
  /** Key-values stored with the workflow, shown by `status()` and lists. */
  readonly attributes?: Readonly<Record<string, unknown>>;
  /** On whose behalf it runs; children inherit it. */
  readonly user?: string;
  readonly roles?: readonly string[];
}

const startOptionNames = ['id', 'timeout', 'app', 'attributes', 'user', 'roles'];

export function checkStartOptions(definition: WorkflowDefinition, options: StartOptions): void {
  const what = `The start of workflow "${definition.name}"`;
  checkKnownOptions(what, options, startOptionNames);
  if (options.id !== undefined) checkName('A workflow ID', options.id);
  if (options.user !== undefined) checkName('A user', options.user);
  const { roles } = options;
  if (roles !== undefined && !(Array.isArray(roles) && roles.every((role) => typeof role === 'string'))) {
    throw invalidOption(what, 'roles', roles, 'a list of texts');
  }
}

/** Starts a workflow from ordinary code. Resolves with its ID once it is durable. */
export async function startWorkflow(
  engine: Engine,
  definition: WorkflowDefinition,
  options: StartOptions,
  args: readonly unknown[],
): Promise<string> {
  engine.checkOpen();
  const checked = definition.input ? await checkInput(definition, definition.input, args) : args;
  const row = await newRow(engine, definition, options, checked, null);
  const started = await engine.checkpoints.start(row);
  begin(engine, definition, row, started, checked, null);
  return row.workflowId;
}

/**
 * Starts a workflow from inside another. The child's row is committed before the parent's record of it, so that a
 * record never points to a child that does not exist; a crash in between finds the same child again by its ID.
 */
export function startChild(
  execution: Execution,
  stepNumber: number,
  definition: WorkflowDefinition,
  options: StartOptions,
  args: readonly unknown[],
): Promise<string> {
  return onceAt(execution, stepNumber, definition.name, async () => {
    const startedAt = execution.engine.clock.now();
    const common = { startedAt, begun: false, output: null };
    try {
      // The schema of its input is user code that a replay does not run.
      const scope = stepScope(execution, stepNumber, 1);
      const id = await enter(scope, () => insertChild(execution, stepNumber, definition, options, args));
      return { ...common, error: null, serialization: null, childWorkflowId: id, result: { ok: true, value: id } };
    } catch (error) {
      if (!execution.running) throw error;
      return failedStart(execution, common, error);
    }
  });
}

async function failedStart(
  execution: Execution,
  common: Pick<Outcome, 'startedAt' | 'begun' | 'output'>,
  error: unknown,
): Promise<Outcome> {
  const codec = execution.engine.codecs.native;
  const text = await codec.encodeError(error);
  // As it will read in a replay.
  const result = { ok: false as const, error: await codec.decodeError(text) };
  return { ...common, error: text, serialization: codec.name, childWorkflowId: null, result };
}

async function insertChild(
  execution: Execution,
  stepNumber: number,
  definition: WorkflowDefinition,
  options: StartOptions,
  args: readonly unknown[],
): Promise<string> {
  const { engine, facts } = execution;
  const checked = definition.input ? await checkInput(definition, definition.input, args) : args;
  const withId = { ...options, id: options.id ?? `${facts.workflowId}-${stepNumber}` };
  const row = await newRow(engine, definition, withId, checked, execution);
  const started = await engine.checkpoints.startChild({
    ...row,
    parentWorkflowId: facts.workflowId,
    parentOwner: facts.owner,
    detached: options.timeout === null,
  });
  if (isSuperseded(started)) {
    engine.superseded(facts.workflowId, facts.owner, started);
    return execution.refuse();
  }
  begin(engine, definition, row, started, checked, execution);
  return row.workflowId;
}

function isSuperseded(started: Started): started is Exclude<Started, 'created' | WorkflowRecord> {
  return started !== 'created' && !('workflowId' in started);
}

function begin(
  engine: Engine,
  definition: WorkflowDefinition,
  row: NewWorkflow,
  started: Started,
  args: readonly unknown[],
  parent: Execution | null,
): void {
  if (started === 'created') {
    const { workflowId, name, owner, createdAt, deadlineAt, inputs, serialization, user, roles, attributes } = row;
    const common = { workflowId, name, owner, createdAt, deadlineAt, inputs, serialization, user, roles, attributes };
    const parentWorkflowId = parent?.workflowId ?? null;
    const atHand = readsBackAlike(row, args) ? { args } : {};
    engine.run({ ...common, attempt: 1, definition, parentWorkflowId, ...atHand });
    return;
  }
  if ('workflowId' in started && started.name === definition.name) {
    warnOfOtherVersion(engine, started);
    return;
  }
  const owner = 'workflowId' in started ? started.name : 'another workflow';
  throw new HoldfastError(
    'WORKFLOW_CONFLICT',
    `Workflow ID "${row.workflowId}" belongs to "${owner}", so "${definition.name}" cannot use it. Choose another ID.`,
    { details: { workflowId: row.workflowId, existing: owner, requested: definition.name } },
  );
}

/** The caller will wait for a workflow that this process must not run, perhaps for ever: that should not be silent. */
function warnOfOtherVersion(engine: Engine, existing: WorkflowRecord): void {
  if (isTerminal(existing.status) || existing.version === null || existing.version === engine.version) return;
  engine.logger.warn(
    `Workflow "${existing.workflowId}" was started before, by version "${existing.version}", and is unfinished. This ` +
      `process is version "${engine.version}" and will not run it: it waits for a process of that version.`,
  );
}

/**
 * Whether the arguments at hand are what a recovery will read. Other formats than our own may give back something
 * else (a text for a Date), and an object may be changed by the caller while the workflow runs.
 */
function readsBackAlike(row: NewWorkflow, args: readonly unknown[]): boolean {
  return row.serialization === nativeCodecName && args.every(isPrimitive);
}

async function newRow(
  engine: Engine,
  definition: WorkflowDefinition,
  options: StartOptions,
  args: readonly unknown[],
  parent: Execution | null,
): Promise<NewWorkflow> {
  const codec: Codec = definition.serialization === 'portable' ? engine.codecs.portable : engine.codecs.native;
  const what = `The input of workflow "${definition.name}"`;
  const createdAt = engine.clock.now();
  const { attributes, roles } = options;
  return {
    workflowId: options.id ?? newWorkflowId(createdAt),
    name: definition.name,
    inputs: await codec.encodeArguments(args, what),
    serialization: codec.name,
    owner: engine.owners.next(),
    version: engine.version,
    createdAt,
    ...deadline(definition, options, createdAt, parent),
    user: options.user ?? parent?.facts.user ?? null,
    roles: roles ? JSON.stringify(roles) : (parent?.facts.roles ?? null),
    attributes: attributes ? await engine.codecs.portable.encode(attributes, `The attributes of ${what}`) : null,
  };
}

/** A child has its parent's deadline, or an earlier one of its own. */
function deadline(definition: WorkflowDefinition, options: StartOptions, now: number, parent: Execution | null) {
  if (options.timeout === null) return { timeoutMs: null, deadlineAt: null };
  const timeoutMs =
    options.timeout === undefined
      ? definition.timeoutMs
      : parseDuration(options.timeout, `The timeout of workflow "${definition.name}"`);
  const own = timeoutMs === null ? Number.POSITIVE_INFINITY : now + timeoutMs;
  const deadlineAt = Math.min(own, parent?.facts.deadlineAt ?? Number.POSITIVE_INFINITY);
  return { timeoutMs, deadlineAt: Number.isFinite(deadlineAt) ? deadlineAt : null };
}

async function checkInput(
  definition: WorkflowDefinition,
  schema: StandardSchemaV1,
  args: readonly unknown[],
): Promise<readonly unknown[]> {
  const result = await schema['~standard'].validate(args[0]);
  if (!result.issues) return [result.value, ...args.slice(1)];
  throw schemaError('INVALID_INPUT', `The input of workflow "${definition.name}"`, result.issues);
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
