/** The other executors of this app, as far as this process knows them (recovery/liveness.ts). */
export interface Fleet {
  /** The incarnations of the other living executors of this version that work on the queue. */
  peersOn(queueName: string): readonly string[];
  /** Reads which versions of the app are run by executors that are not known to be dead. */
  versionsAlive(): Promise<ReadonlySet<string>>;
}
