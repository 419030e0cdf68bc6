import type { Engine } from '../engine/engine.js';
import { otherVersion } from '../engine/warn-once.js';
import { internalQueue } from '../model/queues.js';
import { didYouMean } from '../model/suggest.js';
import { describeKey, type WorkflowKey } from '../model/workflow-key.js';

/**
 * Says why work waits on a queue that this process works on and has room for, and does not take: a workflow of that
 * name is not registered, or the work is for another version that nobody runs. Each thing is said once. In a deploy both
 * versions live for a while, and each has work that is not the other's: there is nothing to say of that.
 */
export async function warnOfUnclaimable(engine: Engine, queueName: string): Promise<void> {
  const { storage, writer, version, registry } = engine;
  const runnable = registry.runnable();
  const waiting = await storage.queues.unclaimable({ writer, version, runnable, queueName });
  if (waiting.length === 0) return;
  const known = registry.all().map(describeKey);
  const [alive, [latest]] = await Promise.all([engine.versionsAlive(), storage.versions.list(writer.appName)]);
  for (const { version: wanted, workflowId, ...key } of waiting) {
    const name = describeKey(key);
    const runBy = wanted ?? latest?.name ?? version;
    if (runBy !== version && alive.has(runBy)) continue;
    const where = `Work waits on queue "${queueName}" that this process cannot do, for instance workflow "${workflowId}":`;
    if (runBy === version && !registry.get(key)) {
      engine.warnOnce(
        `unregistered ${queueName} ${name}`,
        `${where} no workflow named "${name}" is registered.${didYouMean(name, known)} ${whatToGive(key)} to launch() or ` +
          'app.register(), unless another process of the app has it.',
      );
    } else if (runBy !== version) {
      const whose = wanted === null ? `the latest version, "${runBy}",` : `version "${wanted}"`;
      engine.warnOnce(
        queueName === internalQueue ? otherVersion(runBy) : `version ${queueName} ${name} ${wanted}`,
        `${where} it is for ${whose} of the app, and this process is version "${version}". ` +
          (wanted === null
            ? `If that is the one to run it: app.versions.setLatest('${version}').`
            : 'A process of that version goes on with it: keep one, or launch one.'),
      );
    }
  }
}

/** Says that work waits on a queue that does not exist: clients with SQL, and DBOS, can put it there. */
export async function warnOfStrays(engine: Engine): Promise<void> {
  const { storage, writer, queueCache } = engine;
  for (const { queueName, workflowId } of await storage.queues.stray(writer.appName)) {
    engine.warnOnce(
      `stray ${queueName}`,
      `Work waits on queue "${queueName}", for instance workflow "${workflowId}", and there is no such queue.` +
        `${didYouMean(queueName, queueCache.names())} Give it to launch({ queues: [...] }), or move the work: ` +
        `app.workflows.cancel('${workflowId}'), then app.workflows.resume('${workflowId}', { queue }).`,
    );
  }
}

function whatToGive({ className, configName }: WorkflowKey): string {
  if (configName !== null) return `Construct the instance "${configName}" of class "${className}", and give the class`;
  return className === null ? 'Give it' : `Give the class "${className}"`;
}
