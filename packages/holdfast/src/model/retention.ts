import { type Duration, parseDuration } from './duration.js';
import { checkCount, checkKnownOptions, invalidOption, maxInt, misplacedOption } from './options.js';

/** How long workflows are kept that have ended, as `launch({ retention })`. Without it they are kept for ever. */
export interface RetentionOptions {
  /** What has ended longer ago is deleted. */
  readonly after?: Duration;
  /** So many that have ended are kept, the last ones; what ended before them is deleted. */
  readonly keep?: number;
  /** How often is looked for them (default 1 hour, at least 1 s). */
  readonly every?: Duration;
}

export interface RetentionSettings {
  readonly afterMs: number | null;
  readonly keep: number | null;
  readonly everyMs: number;
}

const shortestEveryMs = 1_000;

export function checkRetention(options: RetentionOptions | undefined): RetentionSettings | undefined {
  if (options === undefined) return undefined;
  const what = 'launch({ retention })';
  checkKnownOptions(what, options, ['after', 'keep', 'every']);
  const { after, keep, every = '1h' } = options;
  if (after === undefined && keep === undefined) {
    throw misplacedOption(what, 'after', 'or "keep" must be given: it says which workflows are to be deleted');
  }
  const everyMs = parseDuration(every, `${what}: "every"`);
  if (everyMs < shortestEveryMs) throw invalidOption(what, 'every', every, 'at least 1 s');
  return {
    afterMs: after === undefined ? null : parseDuration(after, `${what}: "after"`),
    keep: keep === undefined ? null : checkCount(what, 'keep', keep, 0, maxInt),
    everyMs,
  };
}
