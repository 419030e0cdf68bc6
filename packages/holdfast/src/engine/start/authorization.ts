import { HoldfastError } from '../../model/errors.js';
import { describeKey } from '../../model/workflow-key.js';
import type { NewWorkflow } from '../../storage/contract/storage.js';
import type { WorkflowDefinition } from '../api/definition.js';
import type { StartOptions } from '../api/start-options.js';
import type { ClaimedWorkflow } from '../engine.js';
import type { Execution } from '../execution/execution.js';

/** The user of a workflow and the roles of that user. `roles` is JSON text, as stored. */
export type Identity = Pick<NewWorkflow, 'user' | 'roles' | 'assumedRole'>;

type Guarded = Pick<WorkflowDefinition, 'name' | 'className' | 'configName' | 'requireRole'>;

/**
 * Returns the identity of a start: the user that the start names, or the user of the parent. Throws a typed error if
 * the workflow requires a role that the user does not have.
 *
 * User and roles belong together: a start that names its own user does not get the roles of the parent.
 */
export function authorize(
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
 * Returns why a claimed workflow must not run, if its user lacks the required role. The process that enqueued the
 * workflow may not have known the required role. A workflow with recorded steps was allowed to start earlier, perhaps
 * under another requirement, and continues to its end.
 */
export function authorizationErrorOf(claimed: ClaimedWorkflow): HoldfastError | undefined {
  const { definition, roles, recorded } = claimed;
  if (!definition.requireRole || (recorded && recorded.length > 0)) return undefined;
  return roleFor(definition, roles) === null ? notAuthorized(definition, claimed) : undefined;
}

/**
 * Returns the first role that the workflow requires and the user has. Null: the user has none of them, or the workflow
 * requires none.
 */
export function roleFor({ requireRole }: Pick<Guarded, 'requireRole'>, roles: string | null): string | null {
  if (!requireRole) return null;
  const own = parseRoles(roles);
  return requireRole.find((role) => own.includes(role)) ?? null;
}

/** Parses stored roles. Other programs write this column too, so anything but a list of strings grants no role. */
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
      `${own.length === 0 ? 'no roles' : `only ${quoted(own, 'and')}`}. ` +
      'Start it for a user with that role: with({ user, roles }).',
    { details: { name, user, roles: own, required } },
  );
}
