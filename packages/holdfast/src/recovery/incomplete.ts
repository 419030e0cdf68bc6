import type { Engine } from '../engine/engine.js';
import { checkName } from '../model/ids.js';
import { checkCount, checkKnownOptions, invalidOption } from '../model/options.js';
import { describeKey } from '../model/workflow-key.js';
import type { ExecutorRecord } from '../storage/contract/executors.js';
import type { IncompleteRecord } from '../storage/contract/takeovers.js';
import { judge, type RecoveryPlan } from './policy.js';

/** Which unfinished work `incomplete()` lists: what matches everything given, oldest first. */
export interface IncompleteOptions {
  readonly workflowIds?: readonly string[];
  readonly executorId?: string;
  /** Of the workflow. */
  readonly name?: string;
  /** At most this many (default and maximum 1000). */
  readonly limit?: number;
  readonly offset?: number;
}

/** A PENDING workflow, or one that was handed over and that no live process can take; whose it is, and what becomes of it. */
export interface IncompleteWorkflow {
  readonly workflowId: string;
  readonly name: string;
  readonly executorId: string | undefined;
  readonly host: string | undefined;
  readonly lastHeartbeatAt: number | undefined;
  /** When it first ran, however often it was taken over since. */
  readonly startedAt: number;
  readonly ageMs: number;
  readonly attempts: number;
  /** `unknown`: nothing tells whether it lives. It is an older Holdfast, or DBOS. `none`: it was handed over, to nobody yet. */
  readonly executor: Standing;
  readonly plan: RecoveryPlan;
}

type Standing = 'alive' | 'suspected' | 'dead' | 'unknown' | 'none';

/** What is known of who owns a workflow. */
export interface Owner {
  readonly standing: Standing;
  readonly record?: ExecutorRecord;
}

/** What `incomplete()` goes by, in a process or in a client. */
export interface Knowledge {
  ownerOf(record: IncompleteRecord): Owner;
  plan(record: IncompleteRecord, owner: Owner): RecoveryPlan;
  /** Those that some executor runs which is not known to be dead. */
  versions(): ReadonlySet<string>;
}

const longestPage = 1000;

export async function listIncomplete(
  engine: Engine,
  knowledge: Knowledge,
  options: IncompleteOptions = {},
): Promise<IncompleteWorkflow[]> {
  const what = 'incomplete()';
  checkKnownOptions(what, options, ['workflowIds', 'executorId', 'name', 'limit', 'offset']);
  const { workflowIds, executorId, name, limit = longestPage, offset = 0 } = options;
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
    limit: Math.min(longestPage, checkCount(what, 'limit', limit, 1)),
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
    executor: owner.standing,
    plan: knowledge.plan(record, owner),
  };
}

/** The incarnation that an owner token was issued by. */
export function incarnationOf({ owner }: Pick<IncompleteRecord, 'owner'>): string | undefined {
  return owner?.includes('.') ? owner.slice(0, owner.indexOf('.')) : undefined;
}

/** What a process of an app plans. */
export function planHere(engine: Engine, enabled: boolean, record: IncompleteRecord, owner: Owner): RecoveryPlan {
  const { version, registry, clock } = engine;
  const { standing } = owner;
  const none = (because: string): RecoveryPlan => ({ action: 'none', at: null, because });
  if (standing === 'none') return handedOver(record);
  if (standing === 'alive') return none('its executor is alive');
  if (record.version !== version) {
    const because = `it is of version "${record.version ?? ''}", and this process of version "${version}"`;
    return { action: 'other-version', at: null, because };
  }
  if (standing === 'unknown') return unknownOwner(record);
  const definition = registry.get(record);
  if (!definition) return none(`no workflow named "${describeKey(record)}" is registered in this process`);
  const now = clock.now();
  const diesAt = standing === 'suspected' ? (owner.record?.heartbeatAt ?? now) + (owner.record?.ttlMs ?? 0) : now;
  const at = Math.max(now, diesAt);
  const { action, because } = judge(registry.policyOf(definition), record, at);
  if (enabled || action === 'wait-for-operator')
    return { action, at: enabled && action !== 'wait-for-operator' ? at : null, because };
  const by = 'recovery is not enabled in this process, so that is for another one, or for sweep()';
  return { action, at: null, because: `${because}; ${by}` };
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
 * What a client can say. It does not watch executors, so it goes by the time of their last heartbeat; and it does not
 * know the policies of those who would take work over.
 */
export async function clientKnowledge(engine: Engine): Promise<Knowledge> {
  const now = engine.clock.now();
  const records = await engine.storage.executors.list(engine.writer.appName);
  const owners = new Map(records.map((record) => [record.incarnation, { record, standing: byHeartbeat(record, now) }]));
  const versions = new Set(
    [...owners.values()].flatMap((each) => (each.standing === 'alive' ? each.record.version : [])),
  );
  return {
    versions: () => versions,
    ownerOf: (record) => ownerOf(record, owners.get(incarnationOf(record) ?? '')) ?? { standing: 'unknown' },
    plan: (record, { standing }) => {
      if (standing === 'none') return handedOver(record);
      if (standing === 'alive') return { action: 'none', at: null, because: 'its executor is alive' };
      if (standing === 'unknown') return unknownOwner(record);
      const version = record.version ?? '';
      if (!versions.has(version)) {
        const because = `its executor is not heard, and no process of its version "${version}" is`;
        return { action: 'other-version', at: null, because };
      }
      const when = standing === 'suspected' ? 'if its executor stays silent, ' : 'its executor is silent: ';
      const because = `${when}a live process of version "${version}" sees to it, by a policy that a client does not know`;
      return { action: 'resume', at: null, because };
    },
  };
}

/** Who has it, if that is known. */
export function ownerOf({ status }: IncompleteRecord, known: Owner | undefined): Owner | undefined {
  return status === 'ENQUEUED' ? { standing: 'none' } : known;
}

function byHeartbeat({ heartbeatAt, ttlMs, present }: ExecutorRecord, now: number): Standing {
  const silentMs = now - heartbeatAt;
  if (silentMs > ttlMs) return 'dead';
  return present === false || silentMs > ttlMs / 2 ? 'suspected' : 'alive';
}
