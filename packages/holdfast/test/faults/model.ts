import type { Outcome, Program } from './programs.js';

/** The model: returns whether a program may have this outcome, whatever its timing and wherever it crashed. */
export function allows(program: Program, outcome: Outcome): boolean {
  switch (program.op) {
    case 'step':
      return same(outcome, program.fails ? { error: program.name } : { ok: program.name });
    case 'sleep':
      return same(outcome, { ok: program.name });
    case 'sequence':
      return 'ok' in outcome ? allowsEach(program.parts, outcome.ok) : allowsFailure(program.parts, outcome);
    case 'all':
      return 'ok' in outcome
        ? allowsEach(program.parts, outcome.ok)
        : program.parts.some((part) => allows(part, outcome));
    case 'race':
      return program.parts.some((part) => allows(part, outcome));
    case 'any':
      return 'ok' in outcome
        ? program.parts.some((part) => allows(part, outcome))
        : allowsEveryError(program.parts, outcome);
    case 'allSettled':
      return (
        'ok' in outcome && isListOf(program.parts, outcome.ok, (part, each) => isOutcome(each) && allows(part, each))
      );
    case 'try':
      return allowsTry(program.body, program.handler, outcome);
    case 'child':
      return allows(program.program, outcome);
  }
}

/** Any other value comes from another branch of a race, whose list happens to have the same length. */
function isOutcome(value: unknown): value is Outcome {
  return typeof value === 'object' && value !== null && ('ok' in value || 'error' in value);
}

function allowsEach(parts: readonly Program[], values: unknown): boolean {
  return isListOf(parts, values, (part, ok) => allows(part, { ok }));
}

/** A sequence fails with the error of one part, if every part before it can succeed. */
function allowsFailure(parts: readonly Program[], outcome: Outcome): boolean {
  return parts.some((part, i) => parts.slice(0, i).every(canSucceed) && allows(part, outcome));
}

function allowsEveryError(parts: readonly Program[], outcome: { readonly error: unknown }): boolean {
  const { any } = Object(outcome.error) as { any?: unknown };
  return isListOf(parts, any, (part, error) => allows(part, { error }));
}

function allowsTry(body: Program, handler: Program, outcome: Outcome): boolean {
  if ('error' in outcome) return canFail(body) && allows(handler, outcome);
  const value = Object(outcome.ok) as { tried?: unknown; caught?: unknown; handled?: unknown };
  if ('tried' in value) return allows(body, { ok: value.tried });
  return allows(body, { error: value.caught }) && allows(handler, { ok: value.handled });
}

function canSucceed(program: Program): boolean {
  switch (program.op) {
    case 'step':
      return !program.fails;
    case 'sequence':
    case 'all':
      return program.parts.every(canSucceed);
    case 'race':
    case 'any':
      return program.parts.some(canSucceed);
    case 'try':
      return canSucceed(program.body) || (canFail(program.body) && canSucceed(program.handler));
    case 'child':
      return canSucceed(program.program);
    default:
      return true;
  }
}

function canFail(program: Program): boolean {
  switch (program.op) {
    case 'step':
      return program.fails;
    case 'sequence':
      return program.parts.some((part, i) => canFail(part) && program.parts.slice(0, i).every(canSucceed));
    case 'all':
    case 'race':
      return program.parts.some(canFail);
    case 'any':
      return program.parts.every(canFail);
    case 'try':
      return canFail(program.body) && canFail(program.handler);
    case 'child':
      return canFail(program.program);
    default:
      return false;
  }
}

function isListOf(
  parts: readonly Program[],
  values: unknown,
  fits: (part: Program, value: unknown) => boolean,
): boolean {
  return Array.isArray(values) && values.length === parts.length && parts.every((part, i) => fits(part, values[i]));
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
