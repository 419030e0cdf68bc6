import { type Duration, parseDuration } from './duration.js';
import { checkCount, checkKnownOptions, invalidOption, maxInt, wrongOption } from './options.js';

/** How long ended workflows are kept, as `launch({ retention })`. Without this option they are kept forever. */
export interface RetentionOptions {
  /** A workflow is deleted when it ended longer ago than this. */
  readonly after?: Duration;
  /** The number of ended workflows to keep. The workflows that ended last are kept; older ones are deleted. */
  readonly keep?: number;
  /** How often retention runs (default 1 hour, at least 1 s). */
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
    throw wrongOption(what, 'after', 'or "keep" is required, to say which workflows to delete');
  }
  const everyMs = parseDuration(every, `${what}: "every"`);
  if (everyMs < shortestEveryMs) throw invalidOption(what, 'every', every, 'at least 1 s');
  return {
    afterMs: after === undefined ? null : parseDuration(after, `${what}: "after"`),
    keep: keep === undefined ? null : checkCount(what, 'keep', keep, 0, maxInt),
    everyMs,
  };
}
