/**
 * Returns the database that the environment names. The variable of DBOS applies if Holdfast's variable is not set, so
 * an application that moves from DBOS to Holdfast finds its database.
 */
export function databaseFromEnvironment(): string | undefined {
  return process.env.HOLDFAST_DATABASE_URL ?? process.env.DBOS_SYSTEM_DATABASE_URL;
}

/** Returns the name of the variable that applies but is empty, if any. */
export function emptyDatabaseVariable(): string | undefined {
  const name = process.env.HOLDFAST_DATABASE_URL === undefined ? 'DBOS_SYSTEM_DATABASE_URL' : 'HOLDFAST_DATABASE_URL';
  return process.env[name]?.trim() === '' ? name : undefined;
}
