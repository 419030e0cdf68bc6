import { HoldfastError } from '../../model/errors.js';
import { describeKey } from '../../model/workflow-key.js';
import type { NewWorkflow } from '../../storage/contract/storage.js';
import type { WorkflowDefinition } from '../api/definition.js';
import type { StartOptions } from '../api/start-options.js';
import type { ClaimedWorkflow } from '../engine.js';
import type { Execution } from '../execution/execution.js';

/** On whose behalf a workflow runs, and who may start which. The roles are JSON text, as they are stored. */
export type Identity = Pick<NewWorkflow, 'user' | 'roles' | 'assumedRole'>;

type Guarded = Pick<WorkflowDefinition, 'name' | 'className' | 'configName' | 'requireRole'>;

/**
 * Who starts the workflow: whom the start names, or whom its parent runs for. A typed error if the workflow requires a
 * role that they do not have.
 *
 * User and roles are one thing: a start that names a user of its own does not get the roles of its parent's.
 */
export function identityOf(
  workflow: Guarded,
  options: Pick<StartOptions, 'user' | 'roles'>,
  parent: Execution | null,
): Identity {
  const { user, roles } = options;
  const inherited = user === undefined ? parent?.claim : undefined;
  const identity = {
    user: user ?? parent?.claim.user ?? null,
    roles: roles ? JSON.stringify(roles) : (inherited?.roles ?? null),
  };
  if (!workflow.requireRole) {
    return { ...identity, assumedRole: roles === undefined ? (inherited?.assumedRole ?? null) : null };
  }
  const assumedRole = roleFor(workflow, identity.roles);
  if (assumedRole === null) throw notAuthorized(workflow, identity);
  return { ...identity, assumedRole };
}

/**
 * Why a workflow that this process has taken must not run: who enqueued it did not know which role it requires. One
 * that has steps on record was let in before, perhaps when it required another role, and goes on to its end.
 */
export function refusalOf(claimed: ClaimedWorkflow): HoldfastError | undefined {
  const { definition, roles, recorded } = claimed;
  if (!definition.requireRole || (recorded && recorded.length > 0)) return undefined;
  return roleFor(definition, roles) === null ? notAuthorized(definition, claimed) : undefined;
}

/** The first of the roles that the workflow requires which is among these. Null: none is, or it requires none. */
export function roleFor({ requireRole }: Pick<Guarded, 'requireRole'>, roles: string | null): string | null {
  if (!requireRole) return null;
  const own = parseRoles(roles);
  return requireRole.find((role) => own.includes(role)) ?? null;
}

/** Other programs write this column too: what is no list of texts grants nothing. */
export function parseRoles(text: string | null): string[] {
  if (text === null) return [];
  try {
    const roles: unknown = JSON.parse(text);
    return Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : [];
  } catch {
    return [];
  }
}

function notAuthorized(workflow: Guarded, { user, roles }: Pick<Identity, 'user' | 'roles'>): HoldfastError {
  const name = describeKey(workflow);
  const required = workflow.requireRole ?? [];
  const own = parseRoles(roles);
  const quoted = (list: readonly string[], word: string): string =>
    list.map((role) => JSON.stringify(role)).join(` ${word} `);
  const who = user === null ? 'a start without a user' : `user "${user}"`;
  return new HoldfastError(
    'NOT_AUTHORIZED',
    `Workflow "${name}" requires the role ${quoted(required, 'or')}, and ${who} has ` +
      `${own.length === 0 ? 'no roles' : `only ${quoted(own, 'and')}`}. Start it for someone who has it: with({ user, roles }).`,
    { details: { name, user, roles: own, required } },
  );
}
