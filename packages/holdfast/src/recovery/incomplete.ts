import type { Engine } from '../engine/engine.js';
import { checkName } from '../model/ids.js';
import { checkCount, checkKnownOptions, invalidOption } from '../model/options.js';
import { describeKey } from '../model/workflow-key.js';
import type { ExecutorRecord } from '../storage/contract/executors.js';
import type { IncompleteRecord } from '../storage/contract/takeovers.js';
import { judge, type RecoveryPlan } from './policy.js';

/** Filters of `incomplete()`. A workflow is listed if it matches all filters that are set. The oldest come first. */
export interface IncompleteOptions {
  readonly workflowIds?: readonly string[];
  readonly executorId?: string;
  /** Name of the workflow. */
  readonly name?: string;
  /** Maximum number of workflows to return (default and maximum 1000). */
  readonly limit?: number;
  /** Number of matching workflows to skip (default 0). */
  readonly offset?: number;
}

/**
 * An unfinished workflow, its executor, and what recovery will do. It is PENDING, or it was handed over and no live
 * process can take it.
 */
export interface IncompleteWorkflow {
  readonly workflowId: string;
  readonly name: string;
  readonly executorId: string | undefined;
  /** Host of the executor, if known. */
  readonly host: string | undefined;
  /** Epoch milliseconds of the executor's last heartbeat, if known. */
  readonly lastHeartbeatAt: number | undefined;
  /** Epoch milliseconds at which the workflow first ran. A recovery does not change it. */
  readonly startedAt: number;
  /** Milliseconds since `startedAt`. */
  readonly ageMs: number;
  /** How many attempts have begun: the first run, and each recovery. */
  readonly attempts: number;
  /**
   * State of the executor. `unknown`: the executor sends no heartbeats to this database (DBOS, or an older Holdfast).
   * `none`: the workflow was handed over, and no executor has claimed it yet.
   */
  readonly executor: OwnerState;
  /** The plan of recovery for the workflow: the action, and when it happens. */
  readonly plan: RecoveryPlan;
}

type OwnerState = 'alive' | 'suspected' | 'dead' | 'unknown' | 'none';

/** The executor that owns a workflow, as far as it is known. */
export interface Owner {
  readonly state: OwnerState;
  readonly record?: ExecutorRecord;
}

/** The knowledge of a process or a client about executors. `incomplete()` derives its answers from this knowledge. */
export interface Knowledge {
  ownerOf(record: IncompleteRecord): Owner;
  plan(record: IncompleteRecord, owner: Owner): RecoveryPlan;
  /** The versions of all executors that are not known to be dead. */
  versions(): ReadonlySet<string>;
}

const maxPageSize = 1000;

export async function listIncomplete(
  engine: Engine,
  knowledge: Knowledge,
  options: IncompleteOptions = {},
): Promise<IncompleteWorkflow[]> {
  const what = 'incomplete()';
  checkKnownOptions(what, options, ['workflowIds', 'executorId', 'name', 'limit', 'offset']);
  const { workflowIds, executorId, name, limit = maxPageSize, offset = 0 } = options;
  if (workflowIds !== undefined && !Array.isArray(workflowIds)) {
    throw invalidOption(what, 'workflowIds', workflowIds, 'a list of IDs');
  }
  for (const id of workflowIds ?? []) checkName('A workflow ID', id);
  const records = await engine.storage.takeovers.incomplete({
    appName: engine.writer.appName,
    ...(workflowIds && { workflowIds }),
    ...(executorId !== undefined && { executorIds: [checkName('An executor ID', executorId)] }),
    ...(name !== undefined && { name: checkName('A workflow name', name) }),
    ...(executorId === undefined && { handedOver: { butFor: [...knowledge.versions()] } }),
    limit: Math.min(maxPageSize, checkCount(what, 'limit', limit, 1)),
    offset: checkCount(what, 'offset', offset),
  });
  return records.map((record) => toIncomplete(record, knowledge, engine.clock.now()));
}

function toIncomplete(record: IncompleteRecord, knowledge: Knowledge, now: number): IncompleteWorkflow {
  const owner = knowledge.ownerOf(record);
  return {
    workflowId: record.workflowId,
    name: record.name,
    executorId: record.executorId ?? undefined,
    host: owner.record?.host,
    lastHeartbeatAt: owner.record?.heartbeatAt,
    startedAt: record.startedAt,
    ageMs: Math.max(0, now - record.startedAt),
    attempts: record.attempts,
    executor: owner.state,
    plan: knowledge.plan(record, owner),
  };
}

/** Returns the incarnation that issued an owner token. */
export function incarnationOf({ owner }: Pick<IncompleteRecord, 'owner'>): string | undefined {
  return owner?.includes('.') ? owner.slice(0, owner.indexOf('.')) : undefined;
}

/** Returns what a process of an app will do with an unfinished workflow. */
export function planHere(engine: Engine, enabled: boolean, record: IncompleteRecord, owner: Owner): RecoveryPlan {
  const { version, registry, clock } = engine;
  const { state } = owner;
  const none = (because: string): RecoveryPlan => ({ action: 'none', at: null, because });
  if (state === 'none') return handedOver(record);
  if (state === 'alive') return none('its executor is alive');
  if (record.version !== version) {
    const because = `it has version "${record.version ?? ''}", and this process runs version "${version}"`;
    return { action: 'other-version', at: null, because };
  }
  if (state === 'unknown') return unknownOwner(record);
  const definition = registry.get(record);
  if (!definition) return none(`no workflow named "${describeKey(record)}" is registered in this process`);
  const now = clock.now();
  const diesAt = state === 'suspected' ? (owner.record?.heartbeatAt ?? now) + (owner.record?.ttlMs ?? 0) : now;
  const at = Math.max(now, diesAt);
  const { action, because } = judge(registry.policyOf(definition), record, at);
  if (enabled || action === 'wait-for-operator')
    return { action, at: enabled && action !== 'wait-for-operator' ? at : null, because };
  const disabled = 'recovery is not enabled in this process, so another process or sweep() must recover it';
  return { action, at: null, because: `${because}; ${disabled}` };
}

function handedOver({ version }: IncompleteRecord): RecoveryPlan {
  const because = `its process handed it over, and no process of its version "${version ?? ''}" is alive`;
  return { action: 'other-version', at: null, because };
}

function unknownOwner({ executorId }: IncompleteRecord): RecoveryPlan {
  const because =
    `nothing is known of executor "${executorId ?? ''}". If it is dead, ` +
    `app.recovery.recover(['${executorId ?? ''}']) takes over its work`;
  return { action: 'wait-for-operator', at: null, because };
}

/**
 * Returns what a client knows. A client does not observe executors over time, so it judges each executor by the time
 * of its last heartbeat. It does not know the recovery policies of the processes that take over work.
 */
export async function clientKnowledge(engine: Engine): Promise<Knowledge> {
  const now = engine.clock.now();
  const records = await engine.storage.executors.list(engine.writer.appName);
  const owners = new Map(records.map((record) => [record.incarnation, { record, state: byHeartbeat(record, now) }]));
  const versions = new Set([...owners.values()].flatMap((each) => (each.state === 'alive' ? each.record.version : [])));
  return {
    versions: () => versions,
    ownerOf: (record) => ownerOf(record, owners.get(incarnationOf(record) ?? '')) ?? { state: 'unknown' },
    plan: (record, { state }) => {
      if (state === 'none') return handedOver(record);
      if (state === 'alive') return { action: 'none', at: null, because: 'its executor is alive' };
      if (state === 'unknown') return unknownOwner(record);
      const version = record.version ?? '';
      if (!versions.has(version)) {
        const because = `its executor sends no heartbeats, and no process of its version "${version}" is alive`;
        return { action: 'other-version', at: null, because };
      }
      const when =
        state === 'suspected' ? 'if its executor sends no more heartbeats, ' : 'its executor sends no heartbeats: ';
      const because = `${when}a live process of version "${version}" applies its policy, which a client does not know`;
      return { action: 'resume', at: null, because };
    },
  };
}

/** Returns the owner of a workflow. A workflow that was handed over is ENQUEUED and has none. */
export function ownerOf({ status }: IncompleteRecord, known: Owner | undefined): Owner | undefined {
  return status === 'ENQUEUED' ? { state: 'none' } : known;
}

function byHeartbeat({ heartbeatAt, ttlMs, present }: ExecutorRecord, now: number): OwnerState {
  const silentMs = now - heartbeatAt;
  if (silentMs > ttlMs) return 'dead';
  return present === false || silentMs > ttlMs / 2 ? 'suspected' : 'alive';
}
