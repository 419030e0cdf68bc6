/**
 * Looks in on every statement from outside: the crash clock of `holdfast/testing` kills the process at one of these
 * moments, and statement counters count them. Production has none.
 *
 * Called when nothing of the statement has left this process yet; what it returns is called for
 * - `after-apply`: the database has committed, the driver has not looked at the reply;
 * - `after-reply`: the driver knows, the engine does not;
 * - `failed`: instead of these two, when the statement failed.
 */
export type StatementProbe = (statement: string) => (phase: 'after-apply' | 'after-reply' | 'failed') => void;
