import type { Row } from '../database.js';
import { bound, isInTransaction, type SqliteConnection, type SqliteStatement, withNumbers } from './connection.js';
import { positional } from './positional.js';

/** The part of `node:sqlite` that is used here, in the form of its first version without a flag (Node 22.13). */
interface NodeSqlite {
  readonly DatabaseSync: new (path: string) => DatabaseSync;
}
interface DatabaseSync {
  /** Available from Node 22.16. */
  readonly isTransaction?: boolean;
  exec(text: string): void;
  prepare(text: string): StatementSync;
  close(): void;
}
interface StatementSync {
  all(...values: unknown[]): Row[];
  setReadBigInts(enabled: boolean): void;
}

/**
 * Returns undefined if this Node has no `node:sqlite`, or only behind a flag. The module is loaded through `process`,
 * so bundlers see no import.
 */
export function findNodeSqlite(): NodeSqlite | undefined {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isReady = major === 22 ? minor >= 13 : major === 23 ? minor >= 4 : major >= 24;
  if (!isReady) return undefined;
  return withoutWarning(() => process.getBuiltinModule('node:sqlite') as NodeSqlite | undefined);
}

/**
 * Hides the warning that Node 22 emits when it first loads the module: that SQLite is an experimental feature. Users of
 * Holdfast did not choose this feature and can do nothing about the warning. All other warnings are passed on. Loading
 * is synchronous, so no other code runs in between.
 */
function withoutWarning<T>(load: () => T): T {
  // Node's own process object: jest gives tests a copy of it.
  const nodeProcess = process.getBuiltinModule('node:process');
  const { emitWarning } = nodeProcess;
  nodeProcess.emitWarning = (...args: unknown[]): void => {
    const [warning, type] = args;
    const isHidden = type === 'ExperimentalWarning' && String(warning).startsWith('SQLite is an experimental feature');
    if (!isHidden) Reflect.apply(emitWarning, nodeProcess, args);
  };
  try {
    return load();
  } finally {
    nodeProcess.emitWarning = emitWarning;
  }
}

/** Opens a connection with the SQLite of this Node. */
export function openNodeSqlite({ DatabaseSync }: NodeSqlite, path: string): SqliteConnection {
  // DatabaseSync also accepts URIs, but `path` is always a path.
  const db = new DatabaseSync(path.startsWith('file:') ? `./${path}` : path);
  let open = true;
  return {
    driver: 'node:sqlite',
    path,
    isOpen: () => open,
    inTransaction: () => isInTransaction(db),
    exec: (text) => db.exec(text),
    prepare: (text) => prepare(db, text),
    close: () => {
      if (open) db.close();
      open = false;
    },
  };
}

function prepare(db: DatabaseSync, given: string): SqliteStatement {
  const { text, order } = positional(given);
  const statement = db.prepare(text);
  // Without BigInts, a number beyond 2^53 in a row causes an error, possibly after a change with RETURNING was applied.
  statement.setReadBigInts(true);
  return { all: (params = []) => withNumbers(statement.all(...bound(order, params))) };
}
