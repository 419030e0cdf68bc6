import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { FileLedger } from './file-ledger.js';

/** The shortest timeout that `launch` accepts. */
export const staleTimeoutMs = 3_000;

export interface FleetOptions {
  readonly ledger: FileLedger;
  readonly logPath: string;
  /** The database URL for the worker of this slot. Some workers connect through the proxy. */
  readonly databaseOf: (slot: number) => string;
}

/** A place for one worker process of a version. When its process is killed, another process takes the place. */
interface Slot {
  readonly index: number;
  version: string;
  worker: SoakWorker | undefined;
  /** An operation is using this slot, so no other operation may use it. */
  busy: boolean;
}

/** The worker processes: started, killed, stopped and replaced on request of faults.ts. */
export class SoakFleet {
  private readonly slots: Slot[];
  private readonly retired = new Set<SoakWorker>();
  private readonly fills = new Set<Promise<void>>();
  private closed = false;

  constructor(
    private readonly options: FleetOptions,
    count: number,
    version: string,
  ) {
    this.slots = Array.from({ length: count }, (_, index) => ({ index, version, worker: undefined, busy: false }));
  }

  async start(): Promise<void> {
    await Promise.all(this.slots.map((slot) => this.fill(slot)));
  }

  get size(): number {
    return this.slots.length;
  }

  /** Returns a slot with a worker that no operation uses, chosen by a number from 0 to 1. */
  private choose(chance: number): Slot | undefined {
    const free = this.slots.filter((slot) => slot.worker && !slot.busy);
    return free[Math.floor(chance * free.length)];
  }

  /** Kills a worker. A replacement starts at once, which takes a moment; the next kill does not wait for it. */
  async kill(chance: number): Promise<boolean> {
    const slot = this.choose(chance);
    if (!slot?.worker) return false;
    const { worker } = slot;
    slot.busy = true;
    slot.worker = undefined;
    this.options.ledger.append({ kind: 'killed', workflowId: '', by: 'fleet', detail: worker.name });
    await worker.kill();
    this.fillLater(slot);
    return true;
  }

  /** Stops a worker (SIGSTOP) while `meanwhile` runs. */
  async stopDuring(chance: number, meanwhile: (worker: SoakWorker) => Promise<void>): Promise<void> {
    const slot = this.choose(chance);
    if (!slot?.worker) return;
    const { worker } = slot;
    slot.busy = true;
    worker.signal('SIGSTOP');
    try {
      await meanwhile(worker);
    } finally {
      worker.signal('SIGCONT');
      slot.busy = false;
    }
  }

  /** Starts a worker of the new version. The old worker finishes what it can, and hands over the rest. */
  async replace(index: number, version: string): Promise<void> {
    const slot = this.slots[index] as Slot;
    while (slot.busy) await new Promise((resolve) => setTimeout(resolve, 50));
    slot.busy = true;
    const old = slot.worker;
    slot.version = version;
    slot.worker = undefined;
    await this.fill(slot);
    slot.busy = false;
    if (!old) return;
    this.retired.add(old);
    await this.retire(old);
    this.retired.delete(old);
  }

  /** Stops all workers at once and expects success. A worker that does not end in time is reported. */
  async stop(): Promise<void> {
    await Promise.all(this.fills);
    this.closed = true;
    await Promise.all(this.slots.map((slot) => slot.worker && this.retire(slot.worker)));
  }

  killAll(): void {
    this.closed = true;
    const workers = [...this.slots.map((slot) => slot.worker), ...this.retired];
    for (const worker of workers) void worker?.kill();
  }

  private async retire(worker: SoakWorker): Promise<void> {
    worker.expected = true;
    worker.signal('SIGTERM');
    const timer = setTimeout(() => {
      this.oddity(`${worker.name} did not end within a minute of SIGTERM`);
      worker.signal('SIGKILL');
    }, 60_000);
    await worker.ended;
    clearTimeout(timer);
    if (worker.exitCode !== 0) this.oddity(`${worker.name} ended badly after SIGTERM: ${worker.complaints}`);
  }

  private oddity(detail: string): void {
    this.options.ledger.append({ kind: 'stray', workflowId: '', by: 'fleet', detail });
  }

  private fillLater(slot: Slot): void {
    slot.busy = true;
    const filling = this.fill(slot).catch((error) => this.oddity(String(error)));
    this.fills.add(filling);
    void filling.finally(() => {
      slot.busy = false;
      this.fills.delete(filling);
    });
  }

  /** Starts a worker, again and again if the database was down: launch then fails with a documented error. */
  private async fill(slot: Slot): Promise<void> {
    const { ledger, logPath, databaseOf } = this.options;
    for (let attempt = 1; !this.closed; attempt++) {
      const { version } = slot;
      const given = { ledgerPath: ledger.path, logPath, database: databaseOf(slot.index), version };
      const worker = new SoakWorker({ ...given, staleTimeout: staleTimeoutMs });
      if (await worker.ready) {
        slot.worker = worker;
        if (this.closed) return worker.kill();
        void worker.ended.then(() => this.noteEnd(slot, worker));
        return;
      }
      await worker.ended;
      if (attempt === 20) throw new Error(`A worker does not start: ${worker.complaints}`);
    }
  }

  private noteEnd(slot: Slot, worker: SoakWorker): void {
    if (worker.expected) return;
    this.oddity(`${worker.name} ended by itself, with ${worker.exitCode}: ${worker.complaints}`);
    if (slot.worker === worker && !slot.busy) this.fillLater(slot);
  }
}

export class SoakWorker {
  complaints = '';
  executorId = '';
  /** True once the worker has been told to stop. */
  expected = false;
  readonly ended: Promise<void>;
  /** Resolves with false if the worker ended before it was ready. */
  readonly ready: Promise<boolean>;
  private readonly child: ChildProcess;

  constructor(options: object) {
    const path = fileURLToPath(new URL('./fixtures/worker.mjs', import.meta.url));
    this.child = fork(path, [JSON.stringify(options)], { execArgv: [], stdio: 'pipe' });
    this.child.stdout?.resume();
    this.child.stderr?.on('data', (chunk: Buffer) => {
      this.complaints = (this.complaints + chunk).slice(-4_000);
    });
    this.ended = new Promise((resolve) => this.child.once('exit', () => resolve()));
    const told = new Promise<boolean>((resolve) => {
      this.child.once('message', (message) => {
        this.executorId = (message as { executorId: string }).executorId;
        resolve(true);
      });
    });
    this.ready = Promise.race([told, this.ended.then(() => false)]);
  }

  get name(): string {
    return `process ${this.child.pid}`;
  }

  get exitCode(): number | null {
    return this.child.exitCode;
  }

  async kill(): Promise<void> {
    this.expected = true;
    this.child.kill('SIGKILL');
    await this.ended;
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }
}
