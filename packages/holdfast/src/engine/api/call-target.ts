import { HoldfastError } from '../../model/errors.js';
import { describeKey } from '../../model/workflow-key.js';
import type { Engine } from '../engine.js';
import { appsWith, launchHint } from '../running-apps.js';
import type { WorkflowDefinition } from './definition.js';
import { sourceShape } from './source-shape.js';
import type { StartOptions } from './start-options.js';

/** The app that a call of a workflow means, and what it runs there. */
export interface CallTarget {
  readonly engine: Engine;
  /** What the app has registered: the definition that was called, or one that it is a copy of. */
  readonly definition: WorkflowDefinition;
}

/**
 * The target of a call from outside workflows: the one running app that has registered the workflow, or the app that is
 * named. Apps that have registered this very definition come first. Without any, the name decides: bundlers and hot reloads
 * evaluate a module several times, and each time there is another definition of the same workflow.
 */
export function callTarget(called: WorkflowDefinition, { app }: Pick<StartOptions, 'app'>): CallTarget {
  const named = appsWith(called).filter(({ engine }) => !app || engine.app === app);
  const exact = named.filter(({ definition }) => definition === called);
  const [found, another] = exact.length > 0 ? exact : named;
  if (!found) throw notLaunched(called, app);
  if (another) throw ambiguous(called, named.length);
  return { engine: found.engine, definition: checkCopy(found.engine, called, found.definition) };
}

/** What the app of an engine runs when the workflow is called; undefined if it has registered nothing of the name. */
export function registeredIn(engine: Engine, called: WorkflowDefinition): WorkflowDefinition | undefined {
  const registered = engine.registry.get(called);
  return registered && checkCopy(engine, called, registered);
}

/**
 * The registered definition, if the one that was called can be a copy of it. It is what runs, because a recovery would run
 * it too. Another source text is no obstacle: bundlers write each copy in their own way, and after a hot reload the
 * old code runs until the app is launched again. Other options or arguments are: the call asks for something else.
 */
function checkCopy(engine: Engine, called: WorkflowDefinition, registered: WorkflowDefinition): WorkflowDefinition {
  if (called === registered) return registered;
  const name = describeKey(called);
  const difference = differenceOf(called, registered);
  if (difference !== undefined) {
    throw new HoldfastError(
      'DUPLICATE_WORKFLOW',
      `The app has registered another workflow under the name "${name}": ${difference}. Rename one. If they are one ` +
        'workflow that was edited, launch the app again.',
      { details: { name } },
    );
  }
  if (called.source !== registered.source) {
    engine.warnOnce(`copy of workflow ${name}`, () => warningOfCopy(name, called, registered));
  }
  return registered;
}

/**
 * Undefined: a bundler has written one function twice, with other names. In production that is all it can be: nothing is
 * edited there, and minifiers put parts of a library into one copy and not into the other.
 */
function warningOfCopy(name: string, called: WorkflowDefinition, registered: WorkflowDefinition): string | undefined {
  if (process.env.NODE_ENV === 'production') return undefined;
  if (sourceShape(called.source) === sourceShape(registered.source)) return undefined;
  return (
    `Workflow "${name}" was called by a definition whose source text differs from the one that the app has registered. ` +
    'The registered code runs. After a hot reload, launch the app again to run the new code. If these are two workflows, rename one.'
  );
}

/** How two definitions of one name differ in what a start depends on, as far as that can be seen. */
function differenceOf(called: WorkflowDefinition, registered: WorkflowDefinition): string | undefined {
  const [asked, taken] = [optionsOf(called), optionsOf(registered)];
  const option = Object.keys(asked).find((each) => JSON.stringify(asked[each]) !== JSON.stringify(taken[each]));
  if (option !== undefined) return `its option "${option}" differs`;
  const [given, takes] = [called.fn.length, registered.fn.length];
  return given === takes ? undefined : `it takes ${takes} arguments, and the one that was called takes ${given}`;
}

/** Of a schema only that there is one: two copies of it are two objects. */
function optionsOf(definition: WorkflowDefinition): Record<string, unknown> {
  const { timeoutMs, input, output, serialization, requireRole = null, recovery } = definition;
  const schemas = { input: input !== undefined, output: output !== undefined };
  return { timeout: timeoutMs, ...schemas, serialization, requireRole, recovery };
}

function ambiguous(called: WorkflowDefinition, count: number): HoldfastError {
  const name = describeKey(called);
  return new HoldfastError(
    'AMBIGUOUS_APP',
    `${count} running apps have registered workflow "${name}". Launch the app once in a process, or say which one is meant: ` +
      `${called.name}.with({ app })(...).`,
    { details: { name } },
  );
}

function notLaunched(called: WorkflowDefinition, app: object | undefined): HoldfastError {
  const name = describeKey(called);
  const given = called.className === null ? 'it' : 'its class';
  return new HoldfastError(
    'NOT_LAUNCHED',
    app
      ? `The given app has not registered workflow "${name}", or was shut down.`
      : `Workflow "${name}" belongs to no running app. Give ${given} to launch({ name, workflows: [...] }) or app.register() first.${launchHint()}`,
    { details: { name } },
  );
}
