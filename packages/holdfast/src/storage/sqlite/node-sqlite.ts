import type { Row } from '../database.js';
import { bound, isInTransaction, type SqliteConnection, type SqliteStatement, withNumbers } from './connection.js';
import { positional } from './positional.js';

/** What is used of `node:sqlite`, in the form that its first version without a flag has (22.13). */
interface NodeSqlite {
  readonly DatabaseSync: new (path: string) => DatabaseSync;
}
interface DatabaseSync {
  /** From 22.16 on. */
  readonly isTransaction?: boolean;
  exec(text: string): void;
  prepare(text: string): StatementSync;
  close(): void;
}
interface StatementSync {
  all(...values: unknown[]): Row[];
  setReadBigInts(enabled: boolean): void;
}

/** Undefined: this Node has none, or only behind a flag. Asked of the process, so that no bundler sees an import. */
export function findNodeSqlite(): NodeSqlite | undefined {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isReady = major === 22 ? minor >= 13 : major === 23 ? minor >= 4 : major >= 24;
  if (!isReady) return undefined;
  return withoutItsWarning(() => process.getBuiltinModule('node:sqlite') as NodeSqlite | undefined);
}

/**
 * Node 22 warns, when it first loads the module, that it is an experimental feature: whoever installs Holdfast has not chosen
 * it, and can do nothing about it. Every other warning goes its way. Loading is synchronous: nobody else's comes between.
 */
function withoutItsWarning<T>(load: () => T): T {
  // Node's own: jest gives its tests a copy of the object.
  const own = process.getBuiltinModule('node:process');
  const { emitWarning } = own;
  own.emitWarning = (...args: unknown[]): void => {
    const [warning, type] = args;
    const isIts = type === 'ExperimentalWarning' && String(warning).startsWith('SQLite is an experimental feature');
    if (!isIts) Reflect.apply(emitWarning, own, args);
  };
  try {
    return load();
  } finally {
    own.emitWarning = emitWarning;
  }
}

/** A connection by the SQLite that Node brings. */
export function openNodeSqlite({ DatabaseSync }: NodeSqlite, path: string): SqliteConnection {
  // It takes URIs as well, and a path is none.
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
  // A number beyond 2^53 in a row would be an error after the fact: a change with RETURNING may have been applied by then.
  statement.setReadBigInts(true);
  return { all: (params = []) => withNumbers(statement.all(...bound(order, params))) };
}
