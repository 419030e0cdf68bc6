/**
 * Owns the proof that each queued item ran exactly once. The ledger records the start time of every body. A figure
 * whose ledger does not add up is void.
 *
 * @typedef {{ started: [input: number, at: number][], repeated: number[] }} Page the entries of one process
 */

/** Returns milliseconds of a clock that all processes of this machine share. */
export function clock() {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Creates the page of this process. */
export function openLedger() {
  /** @type {Map<number, number>} */
  const started = new Map();
  /** @type {number[]} */
  const repeated = [];
  let awaited = { count: Number.POSITIVE_INFINITY, resolve: () => {} };
  return {
    /** @param {number} input */
    enter(input) {
      if (started.has(input)) repeated.push(input);
      else started.set(input, clock());
      if (started.size >= awaited.count) awaited.resolve();
    },
    /** The number of items that have started in this process. */
    count: () => started.size,
    /**
     * Resolves when that many items have started. Only one caller may wait at a time.
     *
     * @param {number} count
     * @returns {Promise<void>}
     */
    reached: (count) =>
      new Promise((resolve) => {
        if (started.size >= count) resolve();
        else awaited = { count, resolve };
      }),
    /** @returns {Page} */
    page: () => ({ started: [...started], repeated }),
  };
}

/**
 * Combines the pages of all processes.
 *
 * @param {Page[]} pages
 * @param {number} items the inputs 0 to `items - 1` were enqueued
 * @returns {number[]} the start time of each body, by input
 */
export function balance(pages, items) {
  /** @type {number[]} */
  const startedAt = [];
  const repeated = pages.flatMap((page) => page.repeated);
  for (const [input, at] of pages.flatMap((page) => page.started)) {
    if (startedAt[input] === undefined) startedAt[input] = at;
    else repeated.push(input);
  }
  const done = startedAt.filter((at) => at !== undefined).length;
  if (done !== items || startedAt.length !== items) throw new Error(`It ran ${done} of ${items} items.`);
  if (repeated.length > 0)
    throw new Error(`It ran ${repeated.length} items more than once, the first: ${repeated[0]}.`);
  return startedAt;
}
