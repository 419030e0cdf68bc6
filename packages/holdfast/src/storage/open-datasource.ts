/**
 * The entrance to the user's own database, for code above `storage/`: datasources, transactions of the caller, the table
 * of completed transactions, and the meaning of errors that drivers throw there.
 */
export {
  type Completion,
  type Completions,
  forbiddenError,
  hasCompletions,
  isForbidden,
  openCompletions,
} from './caller/completions.js';
export {
  checkIntact,
  type Datasource,
  type DatasourceOptions,
  hasOneSnapshot,
  type Isolation,
  rolledBackError,
  type TransactionMode,
  watchOpen,
  withoutWrites,
} from './caller/datasource.js';
export { type CallerTransaction, callerTransaction, type Purpose } from './caller/transaction.js';
export { classifyPostgres, isReadOnlyServer, sqlState } from './postgres/failures.js';
export { isSqlite, sqliteCode } from './sqlite/codes.js';
