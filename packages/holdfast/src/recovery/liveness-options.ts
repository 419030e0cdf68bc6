import type { ExecutorRecord } from '../storage/contract/executors.js';
import type { ProcessIdentity } from './process.js';

export interface LivenessOptions {
  /** How long this process may be silent before other executors declare it dead. */
  readonly ttlMs?: number;
  /** A monotonic clock in milliseconds. */
  readonly monotonic?: () => number;
  /** Returns true if an executor ran on this host and its process is certainly gone. */
  readonly isGone?: (executor: ExecutorRecord) => boolean;
  /** The identity of this process in the table of executors. */
  readonly process?: ProcessIdentity;
}

/** The actions that must succeed before this executor may continue. Until then heartbeats confirm nothing. */
export interface LivenessActions {
  /** Others may have taken over work of this executor. */
  onPossibleLoss(): Promise<void>;
  /** Committed data is missing in the database. */
  onRollback(why: string): Promise<void>;
  /** The row of this executor is gone: others removed it, or the database was restored. */
  onRowLost(): Promise<void>;
}
