import type { Engine } from '../engine/engine.js';
import { didYouMean } from '../model/suggest.js';

/**
 * Says why work waits on a queue that this process works on and does not take: a workflow of that name is not
 * registered, or the work is for another version. Each thing is said once.
 */
export async function warnOfUnclaimable(engine: Engine, queueName: string): Promise<void> {
  const { storage, writer, version, registry } = engine;
  const runnable = registry.runnable();
  const waiting = await storage.queues.unclaimable({ writer, version, runnable, queueName });
  const known = registry.all().map((definition) => definition.name);
  for (const each of waiting) {
    const where = `Workflow "${each.workflowId}" and perhaps others wait on queue "${queueName}"`;
    if (!registry.get(each.name)) {
      engine.warnOnce(
        `${where}, but no workflow named "${each.name}" is registered here.${didYouMean(each.name, known)} ` +
          'Give it to launch() or app.register(), unless another process of the app has it.',
      );
    } else if (each.version !== version) {
      const whose = each.version === null ? 'the latest version' : `version "${each.version}"`;
      engine.warnOnce(`${where} for ${whose} of "${each.name}"; this process is version "${version}".`);
    }
  }
}
