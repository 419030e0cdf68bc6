/**
 * The possible effects of a failed statement:
 * - `lost`: the connection broke or the disk failed, so the statement may or may not have been applied. Read the result
 *   back, or repeat the statement if it is idempotent.
 * - `retry`: the statement was certainly not applied, and a retry after a pause may succeed (deadlock, busy, too many
 *   clients, read-only after a failover).
 * - `locked`: as `retry`; another session holds a lock on one of the rows.
 * - `slow`: as `retry`; the statement took longer than the server allows.
 * - `refused`: the statement was certainly not applied, and a retry would fail too, because the data is at fault.
 * - `unusable`: the statement was certainly not applied, and a retry would fail with any data: the role lacks a right,
 *   or a table, column or function is missing. Only a person can change that.
 */
export type Failure = 'lost' | 'retry' | 'locked' | 'slow' | 'refused' | 'unusable';
