/**
 * The database that the environment names. That of DBOS counts where there is none of Holdfast, so that an application that
 * moves from DBOS to Holdfast finds its database.
 */
export function databaseFromEnvironment(): string | undefined {
  return process.env.HOLDFAST_DATABASE_URL ?? process.env.DBOS_SYSTEM_DATABASE_URL;
}
