import { HoldfastError } from '../../model/errors.js';
import { describeKey } from '../../model/workflow-key.js';
import type { Engine } from '../engine.js';
import { appsWith, launchHint } from '../running-apps.js';
import type { WorkflowDefinition } from './definition.js';
import { sourceShape } from './source-shape.js';
import type { StartOptions } from './start-options.js';

/** The app in which a call runs a workflow, and the definition that runs there. */
export interface CallTarget {
  readonly engine: Engine;
  /**
   * The definition that the app has registered: the called definition itself, or the definition that the called
   * definition copies.
   */
  readonly definition: WorkflowDefinition;
}

/**
 * Returns the target of a call from outside workflows: the only running app that has registered the workflow, or the
 * app of the option `app`. Apps that have registered this very definition take precedence. Without such an app, the
 * name decides: bundlers and hot reloads evaluate a module several times, and each time creates another definition of
 * the same workflow.
 */
export function callTarget(called: WorkflowDefinition, { app }: Pick<StartOptions, 'app'>): CallTarget {
  const candidates = appsWith(called).filter(({ engine }) => !app || engine.app === app);
  const exactMatches = candidates.filter(({ definition }) => definition === called);
  const [found, another] = exactMatches.length > 0 ? exactMatches : candidates;
  if (!found) throw notLaunched(called, app);
  if (another) throw ambiguous(called, candidates.length);
  return { engine: found.engine, definition: checkCopy(found.engine, called, found.definition) };
}

/**
 * Returns the definition that the app of the engine runs for a call. Undefined if the app has no workflow of this name.
 */
export function registeredIn(engine: Engine, called: WorkflowDefinition): WorkflowDefinition | undefined {
  const registered = engine.registry.get(called);
  return registered && checkCopy(engine, called, registered);
}

/**
 * Returns the registered definition if the called definition can be a copy of it. The registered definition runs,
 * because a recovery would run it too. A different source text is accepted: bundlers write each copy in their own way,
 * and after a hot reload the old code runs until the app is launched again. Different options or another number of
 * arguments are an error, because the call then asks for something else.
 */
function checkCopy(engine: Engine, called: WorkflowDefinition, registered: WorkflowDefinition): WorkflowDefinition {
  if (called === registered) return registered;
  const name = describeKey(called);
  const difference = differenceOf(called, registered);
  if (difference !== undefined) {
    throw new HoldfastError(
      'DUPLICATE_WORKFLOW',
      `The app has registered a different workflow with the name "${name}": ${difference}. Rename one of the two. ` +
        'If both are the same workflow and you have edited it, launch the app again.',
      { details: { name } },
    );
  }
  if (called.source !== registered.source) {
    engine.warnOnce(`copy of workflow ${name}`, () => copyWarning(name, called, registered));
  }
  return registered;
}

/**
 * Returns the warning about a copy with another source text. Undefined if only names differ, because a bundler has then
 * written one function twice. Undefined in production too: nothing is edited there, and minifiers inline parts of a
 * library into one copy and not into the other.
 */
function copyWarning(name: string, called: WorkflowDefinition, registered: WorkflowDefinition): string | undefined {
  if (process.env.NODE_ENV === 'production') return undefined;
  if (sourceShape(called.source) === sourceShape(registered.source)) return undefined;
  return (
    `Workflow "${name}" was called through a definition whose source text differs from the registered definition. ` +
    'The registered code runs. After a hot reload, launch the app again to run the new code. ' +
    'If these are two different workflows, rename one.'
  );
}

/**
 * Describes a visible difference between two definitions of the same name that matters for a start. Undefined: none.
 */
function differenceOf(called: WorkflowDefinition, registered: WorkflowDefinition): string | undefined {
  const [calledOptions, registeredOptions] = [optionsOf(called), optionsOf(registered)];
  const option = Object.keys(calledOptions).find(
    (each) => JSON.stringify(calledOptions[each]) !== JSON.stringify(registeredOptions[each]),
  );
  if (option !== undefined) return `its option "${option}" differs`;
  const [calledCount, registeredCount] = [called.fn.length, registered.fn.length];
  return calledCount === registeredCount
    ? undefined
    : `it takes ${registeredCount} arguments, and the called workflow takes ${calledCount}`;
}

/**
 * The options to compare. For a schema, only its presence is compared, because two copies of a schema are two objects.
 */
function optionsOf(definition: WorkflowDefinition): Record<string, unknown> {
  const { timeoutMs, input, output, serialization, requireRole = null, recovery } = definition;
  const schemas = { input: input !== undefined, output: output !== undefined };
  return { timeout: timeoutMs, ...schemas, serialization, requireRole, recovery };
}

function ambiguous(called: WorkflowDefinition, count: number): HoldfastError {
  const name = describeKey(called);
  return new HoldfastError(
    'AMBIGUOUS_APP',
    `${count} running apps have registered workflow "${name}". Launch the app once in a process, or name the app ` +
      `to use: ${called.name}.with({ app })(...).`,
    { details: { name } },
  );
}

function notLaunched(called: WorkflowDefinition, app: object | undefined): HoldfastError {
  const name = describeKey(called);
  const given = called.className === null ? 'it' : 'its class';
  return new HoldfastError(
    'NOT_LAUNCHED',
    app
      ? `The given app has not registered workflow "${name}", or the app was shut down. Give ${given} to launch() or ` +
          'app.register() of that app, or give another app.'
      : `Workflow "${name}" belongs to no running app. Give ${given} to launch({ name, workflows: [...] }) or ` +
          `app.register() first.${launchHint()}`,
    { details: { name } },
  );
}
