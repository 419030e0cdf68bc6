import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { migrate } from '../app/migrate.js';
import { isHoldfastError } from '../model/errors.js';
import type { Logger } from '../model/logger.js';
import { type Compat, checkSchema, databaseFromEnvironment, schemaSql } from '../storage/open.js';

/** The two outputs of a command. */
export interface Terminal {
  /** Writes the result, for a file or another program. */
  out(text: string): void;
  /** Writes messages for people: progress, warnings, errors. */
  err(text: string): void;
}

/** Runs one command. Returns the exit code: 0 if it succeeded, 1 if it failed, 2 if the arguments are invalid. */
export async function runCommand(args: readonly string[], terminal: Terminal): Promise<number> {
  const program = createProgram(args, terminal);
  try {
    await program.parseAsync([...args], { from: 'user' });
    return 0;
  } catch (error) {
    if (isCommanderError(error)) return error.exitCode === 0 ? 0 : 2;
    const code = isHoldfastError(error) ? `${error.code}: ` : '';
    terminal.err(`error: ${code}${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  }
}

function createProgram(args: readonly string[], terminal: Terminal): Command {
  const program = new Command('holdfast')
    .description('Prepares databases for Holdfast, durable workflows on SQLite or Postgres.')
    .version(version(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .showSuggestionAfterError()
    .showHelpAfterError('Run `holdfast --help` for the commands and their options.')
    .exitOverride()
    .configureOutput({
      writeOut: terminal.out,
      writeErr: terminal.err,
      outputError: (text, write) => write(withoutValues(text, args)),
    });
  const subcommand = (name: string) => program.command(name).helpOption('-h, --help', 'print this help');
  addSchema(subcommand('schema'), terminal);
  addMigrate(subcommand('migrate'), terminal);
  return program;
}

const schemaOption = () =>
  new Option('--schema <name>', 'schema of the tables on Postgres').default('dbos').argParser(parseSchema);
const noTriggers = () => new Option('--no-triggers', 'on Postgres: create no trigger that announces messages');

const grantsOption = () =>
  new Option('--grants <role>', 'also print GRANT statements with the rights of a role that runs workflows').argParser(
    parseRole,
  );

const compatOption = () =>
  new Option('--compat <layout>', '`none`: leave out the indexes that only DBOS applications need').choices([
    'shared',
    'none',
  ] satisfies Compat[]);

interface SchemaOptions {
  readonly compat?: Compat;
  readonly schema: string;
  readonly triggers: boolean;
  readonly grants?: string;
  readonly sqlite?: true;
}

function addSchema(command: Command, terminal: Terminal): void {
  command
    .summary('print the SQL that creates the tables')
    .description(
      'Prints the SQL that `migrate` would run on an empty database, so that an administrator can run it. ' +
        'Processes then launch with `migrate: false`.',
    )
    .addOption(schemaOption())
    .addOption(grantsOption())
    .addOption(
      new Option('--sqlite', 'print the SQL for SQLite instead of Postgres').conflicts([
        'grants',
        'compat',
        'schema',
        'triggers',
      ]),
    )
    .addOption(noTriggers())
    .addOption(compatOption())
    .addHelpText('after', '\nExample:\n  holdfast schema --grants app | psql "$ADMIN_URL" --set ON_ERROR_STOP=1\n')
    .action(({ sqlite, ...options }: SchemaOptions) => {
      terminal.out(schemaSql({ ...options, database: sqlite ? 'sqlite' : 'postgres' }));
    });
}

interface MigrateCommandOptions {
  readonly compat?: Compat;
  readonly database?: string;
  readonly schema: string;
  readonly triggers: boolean;
}

function addMigrate(command: Command, terminal: Terminal): void {
  command
    .summary('create the tables, or bring them up to date')
    .description('Creates the tables of a database, or brings them up to date, and runs nothing.')
    .option(
      '--database <url>',
      'postgres://... or sqlite:path (default: HOLDFAST_DATABASE_URL, else DBOS_SYSTEM_DATABASE_URL)',
    )
    .addOption(schemaOption())
    .addOption(noTriggers())
    .addOption(compatOption())
    .addHelpText('after', '\nA URL on the command line is visible in `ps`. Prefer HOLDFAST_DATABASE_URL.\n')
    .action(async ({ database, ...options }: MigrateCommandOptions) => {
      if (!database && !databaseFromEnvironment()) {
        command.error('error: no database is named. Set HOLDFAST_DATABASE_URL, or give --database <url>.');
      }
      await migrate({ ...options, database, logger: toTerminal(terminal) });
      terminal.err('The database is up to date.\n');
    });
}

/**
 * Removes argument values from an error message. Commander repeats invalid arguments, and one may be a URL with a
 * password.
 */
function withoutValues(text: string, args: readonly string[]): string {
  const isWord = (part: string): boolean => /^[\w-]*$/.test(part);
  return args.reduce((shown, arg) => {
    const name = /^--[\w-]+(?==)/.exec(arg)?.[0];
    if (name === undefined) return isWord(arg) ? shown : shown.replaceAll(arg, '...');
    const value = arg.slice(name.length + 1);
    const named = shown.replaceAll(arg, `${name}=...`);
    return isWord(value) ? named : named.replaceAll(value, '...');
  }, text);
}

function toTerminal({ err }: Terminal): Logger {
  const line = (level: string) => (message: string) => err(`${level}${message}\n`);
  return { debug: () => {}, info: line(''), warn: line('warning: '), error: line('error: ') };
}

function parseSchema(name: string): string {
  try {
    checkSchema('--schema', name);
    return name;
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : '');
  }
}

function parseRole(name: string): string {
  if (name === '') throw new InvalidArgumentError('The name of the role is empty.');
  return name;
}

function isCommanderError(error: unknown): error is Error & { readonly exitCode: number } {
  return error instanceof Error && 'exitCode' in error && typeof error.exitCode === 'number';
}

/** Reads the version from package.json, which is two folders up from both the build and the source. */
function version(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  return String(version);
}
