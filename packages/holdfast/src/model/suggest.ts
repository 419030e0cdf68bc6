/** Returns the sentence `Did you mean "..."?` with the closest of the known names, or an empty text. */
export function didYouMean(given: string, known: readonly string[]): string {
  let best: string | undefined;
  let bestDistance = maxTypos(given.length) + 1;
  for (const candidate of known) {
    const typos = editDistance(given.toLowerCase(), candidate.toLowerCase());
    const distance = isSameWord(given, candidate) ? Math.min(typos, 1) : typos;
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best === undefined ? '' : ` Did you mean "${best}"?`;
}

/** Returns true for two forms of the same word, such as `retry` and `retries`, or `queue` and `queues`. */
function isSameWord(given: string, known: string): boolean {
  const stem = (word: string): string =>
    word
      .toLowerCase()
      .replace(/(ies|y)$/, '')
      .replace(/s$/, '');
  return stem(given) === stem(known);
}

/**
 * Returns the maximum number of typos. It is low for short names, so that names with little in common do not match.
 */
function maxTypos(length: number): number {
  return length < 4 ? Math.floor(length / 2) : Math.max(2, Math.floor(length / 3));
}

/** Returns the number of letters to insert, remove, replace, or swap with a neighbor. */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? (beforePrevious[j - 2] ?? 0) + 1 : substitution;
      current.push(Math.min(substitution, swap, (previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1));
    }
    [beforePrevious, previous] = [previous, current];
  }
  return previous[b.length] ?? 0;
}
