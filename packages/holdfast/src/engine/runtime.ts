import type { Codecs } from '../codec/codecs.js';
import type { Clock } from '../model/clock.js';
import { Emitter } from '../model/emitter.js';
import { OwnerTokens } from '../model/ids.js';
import type { Logger } from '../model/logger.js';
import { internalQueue } from '../model/queues.js';
import type { Storage, Writer } from '../storage/contract/storage.js';
import { Cancellations } from './cancellations.js';
import { Claims } from './claims.js';
import type { Engine } from './engine.js';
import type { EngineEvents } from './events.js';
import { Macrotasks } from './execution/deliveries.js';
import { Executions } from './executions.js';
import { Lifecycle } from './lifecycle.js';
import { QueueCache } from './queue/queue-cache.js';
import { SlotsInUse } from './queue/slots-in-use.js';
import type { Registry } from './registry.js';
import { StartGate } from './start-gate.js';
import { CompletionWaiters } from './wait/completion-waiters.js';
import { News } from './wait/news.js';
import { Watches } from './wait/watches.js';
import { WarnOnce } from './warn-once.js';
import { Backoff, isFinal } from './write/backoff.js';
import { Checkpoints } from './write/checkpoints.js';
import { EnqueueWriter } from './write/enqueue-writer.js';
import { MessageWriter } from './write/message-writer.js';
import { limitOutages, reportRefusal } from './write/outage-log.js';

export interface RuntimeOptions {
  readonly writer: Writer;
  readonly version: string;
  readonly storage: Storage;
  readonly clock: Clock;
  readonly codecs: Codecs;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Names of the queues that this process takes work from; undefined: all queues. */
  readonly listen?: readonly string[] | undefined;
  /** How many busy workflows of its queues this process may have. */
  readonly maxRunning?: number;
  /** Called once, at the first wait for something that another process may do. */
  readonly onFirstWait?: () => void;
  /** Crash point: called immediately before user code receives a result. */
  readonly beforeResolve?: () => void;
}

/** The engine of one app or client: creates the parts of the engine, and connects them. */
export class Runtime implements Engine {
  app: object | undefined;
  readonly writer: Writer;
  readonly version: string;
  readonly storage: Storage;
  readonly clock: Clock;
  readonly codecs: Codecs;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly listens: readonly string[] | null;
  readonly owners = new OwnerTokens();
  readonly lifecycle = new Lifecycle();
  readonly events = new Emitter<EngineEvents>();
  readonly startGate = new StartGate((error) => reportRefusal(this.logger, error));
  readonly claims = new Claims(this);
  readonly executions = new Executions(this);
  readonly cancellations = new Cancellations(this);
  readonly checkpoints: Checkpoints;
  readonly enqueueWriter: EnqueueWriter;
  readonly messageWriter: MessageWriter;
  readonly queueCache: QueueCache;
  readonly slotsInUse: SlotsInUse;
  readonly news: News;
  readonly completionWaiters: CompletionWaiters;
  readonly watches: Watches;
  readonly macrotasks: Macrotasks;
  private readonly warnings: WarnOnce;

  constructor(options: RuntimeOptions) {
    const { writer, version, storage, clock, codecs, registry, maxRunning, onFirstWait } = options;
    const logger = limitOutages(options.logger, (error) => storage.classify(error) !== 'refused');
    this.writer = writer;
    this.version = version;
    this.storage = storage;
    this.clock = clock;
    this.codecs = codecs;
    this.logger = logger;
    this.registry = registry;
    this.listens = options.listen ?? null;
    this.warnings = new WarnOnce(logger);
    this.checkpoints = new Checkpoints(storage, writer, logger, this.startGate);
    this.enqueueWriter = new EnqueueWriter(storage, logger);
    this.messageWriter = new MessageWriter(storage, logger);
    this.queueCache = new QueueCache(storage);
    const onFreed = (freed: EngineEvents['slotFreed']): void => this.events.emit('slotFreed', freed);
    this.slotsInUse = new SlotsInUse({ clock, maxRunning, onFreed });
    this.news = new News(storage, logger);
    const runsHere = (workflowId: string): boolean => this.executions.has(workflowId);
    this.completionWaiters = new CompletionWaiters({ storage, clock, logger, runsHere, onFirstWait });
    this.watches = new Watches({ storage, clock, logger, news: this.news, onFirstWait });
    this.macrotasks = new Macrotasks(options.beforeResolve);
    this.news.subscribe((topic) => {
      if (topic === null || topic === 'ended') this.completionWaiters.pollSoon();
    });
  }

  /** True if no write is open and no result is about to reach user code. Running step functions do not count. */
  get isIdle(): boolean {
    const parts = [this.checkpoints, this.enqueueWriter, this.messageWriter, this.executions];
    return this.macrotasks.idle && !this.claims.arePausing && parts.every(({ isIdle }) => isIdle);
  }

  worksOn(queueName: string): boolean {
    if (this.version === '') return false;
    return queueName === internalQueue || this.listens === null || this.listens.includes(queueName);
  }

  warnOnce(about: string, message: string | (() => string | undefined)): void {
    this.warnings.once(about, message);
  }

  /** Retries a statement until the database answers or the app closes. Used for statements that must not be lost. */
  async untilAnswered<T>(what: string, statement: () => Promise<T>, failsFast = false): Promise<T | undefined> {
    const backoff = new Backoff(what, this.logger);
    while (!this.lifecycle.isClosed) {
      try {
        return await statement();
      } catch (error) {
        if (isFinal(this.storage.classify(error), failsFast)) throw error;
        await backoff.pause(error);
      }
    }
    return undefined;
  }
}
