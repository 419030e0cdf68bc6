/**
 * Observes every statement. The crash clock of `holdfast/testing` kills the process at one of these moments, and
 * statement counters count them. Production has no probe.
 *
 * The probe is called before any part of the statement has left this process. The returned function is called for these
 * phases:
 * - `after-apply`: the database has committed, and the driver has not read the reply.
 * - `after-reply`: the driver has read the reply, and the engine has not received it.
 * - `failed`: the statement has failed; replaces the other two.
 */
export type StatementProbe = (statement: string) => (phase: 'after-apply' | 'after-reply' | 'failed') => void;
