import { setTimeout as delay } from 'node:timers/promises';
import { type Client, event, stream, topic } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import type { FileLedger } from './file-ledger.js';
import { type Job, pick, planJob } from './jobs.js';

const letters = topic<string>('letters');
const progress = event<number>('progress');
const lines = stream<number>('lines');

/** A client with a name for the ledger. */
export interface Observer {
  readonly name: string;
  readonly client: Client;
}

/** After these errors the call can be repeated. */
const passing = new Set(['DATABASE_FAILED', 'DATABASE_UNREACHABLE']);
const pauseMs = 100;

/** The statuses of unsuccessful workflows, by the error code of their result. */
const endings: Record<string, string> = {
  WORKFLOW_CANCELLED: 'CANCELLED',
  WORKFLOW_STALLED: 'STALLED',
  WORKFLOW_DEAD: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED',
};

/** Clients that start workflows, exchange messages with them and wait for them, a fixed number at a time. */
export class Traffic {
  readonly inFlight = new Map<string, Job>();
  started = 0;
  /** How often the database was restored. Lost workflows are started again, and their messages are sent again. */
  private restores = 0;
  /** All requested jobs. A restore may also lose a workflow that has ended while an operator still works on it. */
  private readonly jobs = new Map<string, Job>();
  private readonly random: SeededRandom;

  constructor(
    private readonly observers: readonly Observer[],
    private readonly ledger: FileLedger,
    seed: string,
  ) {
    this.random = new SeededRandom(`jobs ${seed}`);
  }

  /** Starts jobs until `isOver`. Resolves when every started job has ended for all its observers. */
  async run(width: number, isOver: () => boolean): Promise<void> {
    const lane = async (): Promise<void> => {
      while (!isOver()) await this.guarded(planJob(this.started++, this.random));
    };
    await Promise.all(Array.from({ length: width }, lane));
  }

  /** A call that fails for good is a violation, but the run continues. */
  private async guarded(job: Job): Promise<void> {
    try {
      await this.oneJob(job);
    } catch (error) {
      this.ledger.append({
        kind: 'stray',
        workflowId: job.id,
        by: 'client',
        detail: `${job.id} was given up: ${error}`,
      });
    } finally {
      this.inFlight.delete(job.id);
    }
  }

  private async oneJob(job: Job): Promise<void> {
    const [first, second] = [pick(this.observers, this.random), pick(this.observers, this.random)];
    const { id, name, args, options, expected, ending } = job;
    this.jobs.set(id, job);
    this.ledger.append({ kind: 'asked', workflowId: id, by: first.name, detail: JSON.stringify({ expected, ending }) });
    await this.insist(first, id, () => first.client.start(name, { ...options, id }, ...args));
    this.ledger.append({ kind: 'ack', workflowId: id, by: first.name });
    this.inFlight.set(id, job);
    await Promise.all([this.observe(first, id), this.observe(second, id), this.talkTo(job, second)]);
  }

  /** Waits for the result, and notes it. */
  async observe(observer: Observer, id: string): Promise<void> {
    const { name, client } = observer;
    const wait = async (): Promise<object> => {
      try {
        return { status: 'SUCCESS', value: await client.workflows.handle(id).result() };
      } catch (error) {
        const { code, message } = error as Error & { code?: string };
        if (code !== undefined && endings[code]) return { status: endings[code] };
        if (code === undefined && message.startsWith('planned')) return { status: 'ERROR', value: message };
        // The workflow itself may have failed with such an error. Then the error is its outcome.
        const isOutcome = (await client.workflows.get(id))?.status === 'ERROR';
        if (isOutcome) return { status: 'ERROR', value: message };
        throw error;
      }
    };
    const detail = JSON.stringify(await this.insist(observer, id, wait));
    this.ledger.append({ kind: 'result', workflowId: id, by: name, detail });
  }

  /** Repeats a call until it succeeds, and notes each failure. */
  async insist<T>({ name }: Observer, workflowId: string, call: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        const { code, message } = error as Error & { code?: string };
        this.ledger.append({ kind: 'told', workflowId, by: name, detail: `${code ?? 'none'} ${message}` });
        const job = this.restores > 0 && code === 'WORKFLOW_NOT_FOUND' ? this.jobs.get(workflowId) : undefined;
        if (job) await this.startAgain(job);
        else if (!passing.has(code ?? '')) throw error;
        await delay(pauseMs);
      }
    }
  }

  /** Called before a restore: from now on, missing workflows may be lost. */
  willBeRestored(): void {
    this.restores++;
  }

  /**
   * Clients start lost workflows again under the same ID. They cannot detect lost messages, so they send all of them
   * again.
   */
  async wasRestored(): Promise<void> {
    const mailboxes = [...this.inFlight.values()].filter(({ name }) => name === 'mailbox');
    const [observer] = this.observers;
    if (observer) await Promise.all(mailboxes.map((job) => this.talkTo(job, observer).catch(() => {})));
  }

  private async startAgain({ id, name, args, options }: Job): Promise<void> {
    const [{ client } = {}] = this.observers;
    await client?.start(name, { ...options, id }, ...args).catch(() => {});
    this.ledger.append({ kind: 'started again', workflowId: id, by: 'client' });
  }

  private async talkTo({ id, name, args }: Job, observer: Observer): Promise<void> {
    if (name === 'mailbox') await this.send(observer, id, args[0] as number);
    if (name === 'teller') await this.listen(observer, id);
  }

  private async send(observer: Observer, id: string, count: number): Promise<void> {
    const { restores } = this;
    for (let i = 0; i < count; i++) {
      const value = `${id}/${i}`;
      // The idempotency key makes a repetition harmless if the first attempt arrived without an answer.
      const options = { idempotencyKey: `letter ${i}`, app: observer.client };
      await this.insist(observer, id, () => letters.send(id, value, options));
      this.ledger.append({ kind: 'sent', workflowId: id, by: observer.name, detail: value });
      await delay(pauseMs * this.random.number());
      // A restore may have lost some of the earlier messages.
      if (this.restores !== restores) return this.send(observer, id, count);
    }
  }

  private async listen(observer: Observer, id: string): Promise<void> {
    const app = observer.client;
    await this.insist(observer, id, () => progress.get(id, { app, timeout: '1s' }));
    const read = await this.insist(observer, id, async () => {
      const values: number[] = [];
      for await (const value of lines.read(id, { app })) values.push(value);
      return values;
    });
    this.ledger.append({ kind: 'read', workflowId: id, by: observer.name, detail: JSON.stringify(read) });
  }
}
