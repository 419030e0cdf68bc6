import type { Engine } from '../engine/engine.js';
import { otherVersion } from '../engine/warn-once.js';
import { internalQueue } from '../model/queues.js';
import { didYouMean } from '../model/suggest.js';
import { describeKey, type WorkflowKey } from '../model/workflow-key.js';
import type { Fleet } from './fleet.js';

/**
 * Warns of work that this process does not take although it has capacity: no workflow of that name is registered, or
 * the work is for another version that no process runs. Each warning is logged once. During a deploy, processes of
 * both versions run for a while, and each version has work that the other cannot take: this is normal and logs no
 * warning.
 */
export async function warnOfUnclaimable(engine: Engine, fleet: Fleet, queueName: string): Promise<void> {
  const { storage, writer, version, registry } = engine;
  const runnable = registry.runnable();
  const waiting = await storage.queues.unclaimable({ writer, version, runnable, queueName });
  if (waiting.length === 0) return;
  const known = registry.all().map(describeKey);
  const [alive, [latest]] = await Promise.all([fleet.versionsAlive(), storage.versions.list(writer.appName)]);
  for (const { version: wanted, workflowId, ...key } of waiting) {
    const name = describeKey(key);
    const runBy = wanted ?? latest?.name ?? version;
    if (runBy !== version && alive.has(runBy)) continue;
    const example = `for instance workflow "${workflowId}"`;
    const problem = `Work waits on queue "${queueName}" that this process cannot run, ${example}:`;
    if (runBy === version && !registry.get(key)) {
      engine.warnOnce(
        `unregistered ${queueName} ${name}`,
        `${problem} no workflow named "${name}" is registered.${didYouMean(name, known)} ${whatToGive(key)} to ` +
          'launch() or app.register(), unless another process of the app has registered the workflow.',
      );
    } else if (runBy !== version) {
      const whose = wanted === null ? `the latest version, "${runBy}",` : `version "${wanted}"`;
      engine.warnOnce(
        queueName === internalQueue ? otherVersion(runBy) : `version ${queueName} ${name} ${wanted}`,
        `${problem} the work is for ${whose} of the app, and this process is version "${version}". ` +
          (wanted === null
            ? `If version "${version}" must run the work, call app.versions.setLatest('${version}').`
            : 'Only a process of that version continues the work: keep or launch one.'),
      );
    }
  }
}

/** Warns of work on queues that do not exist. SQL clients and DBOS can enqueue such work. */
export async function warnOfUnknownQueues(engine: Engine): Promise<void> {
  const { storage, writer, queueCache } = engine;
  for (const { queueName, workflowId } of await storage.queues.onUnknownQueues(writer.appName)) {
    engine.warnOnce(
      `stray ${queueName}`,
      `Work waits on queue "${queueName}", for instance workflow "${workflowId}", but there is no such queue.` +
        `${didYouMean(queueName, queueCache.names())} Give the queue to launch({ queues: [...] }), or move the work: ` +
        `app.workflows.cancel('${workflowId}'), then app.workflows.resume('${workflowId}', { queue }).`,
    );
  }
}

function whatToGive({ className, configName }: WorkflowKey): string {
  if (configName !== null) return `Construct the instance "${configName}" of class "${className}", and give the class`;
  return className === null ? 'Give the workflow' : `Give the class "${className}"`;
}
