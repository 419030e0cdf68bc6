import { setTimeout as delay } from 'node:timers/promises';
import { isHoldfastError } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import type { FileLedger } from './file-ledger.js';
import { type Job, pick, queueLimits } from './jobs.js';
import type { Observer, Traffic } from './traffic.js';

/** An operator who cancels and resumes workflows, and changes queues, during the run. */
export class Operator {
  cancels = 0;
  resumes = 0;
  changes = 0;
  private readonly random: SeededRandom;
  /** Observations of resumed workflows that have not ended yet. */
  private readonly followUps = new Set<Promise<unknown>>();

  constructor(
    private readonly observer: Observer,
    private readonly traffic: Traffic,
    private readonly ledger: FileLedger,
    seed: string,
  ) {
    this.random = new SeededRandom(`operator ${seed}`);
  }

  async run(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      await delay(400 + 800 * this.random.number());
      const jobs = [...this.traffic.inFlight.values()];
      if (jobs.length === 0) continue;
      const act = pick([this.cancel, this.cancel, this.limit, this.pause, this.reorder], this.random);
      await act.call(this, pick(jobs, this.random));
    }
    await this.onQueues((queues) => queues.resume('changing'));
    await Promise.all(this.followUps);
  }

  private async cancel(job: Job): Promise<void> {
    const { id } = job;
    this.ledger.append({ kind: 'cancel', workflowId: id, by: this.observer.name });
    await this.call(id, () => this.observer.client.workflows.cancel(id));
    this.cancels++;
    if (!job.resumable || this.random.number() < 0.4) return;
    await delay(1_000 * this.random.number());
    this.ledger.append({ kind: 'resume', workflowId: id, by: this.observer.name });
    await this.call(id, () => this.observer.client.workflows.resume(id));
    this.resumes++;
    const followUp = this.traffic.observe(this.observer, id).finally(() => this.followUps.delete(followUp));
    this.followUps.add(followUp);
  }

  private async limit(): Promise<void> {
    const concurrency = 2 + Math.floor(this.random.number() * (queueLimits.changing.concurrency - 1));
    await this.onQueues((queues) => queues.update('changing', { concurrency }));
    this.changes++;
  }

  private async pause(): Promise<void> {
    await this.onQueues((queues) => queues.pause('changing'));
    await delay(500 * this.random.number());
    await this.onQueues((queues) => queues.resume('changing'));
    this.changes++;
  }

  private async reorder({ id }: Job): Promise<void> {
    const { workflows } = this.observer.client;
    await this.call(id, () => workflows.setPriority(id, Math.floor(this.random.number() * 5)));
    await this.call(id, () => workflows.setDelay(id, 100));
    this.changes++;
  }

  private onQueues(change: (queues: Observer['client']['queues']) => Promise<unknown>): Promise<unknown> {
    return this.call('', () => change(this.observer.client.queues));
  }

  private async call(id: string, make: () => Promise<unknown>): Promise<unknown> {
    try {
      return await this.traffic.insist(this.observer, id, make);
    } catch (error) {
      // The error is already in the ledger, where an undocumented error counts as a violation.
      if (isHoldfastError(error)) return undefined;
      throw error;
    }
  }
}
