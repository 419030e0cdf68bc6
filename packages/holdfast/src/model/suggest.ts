/** "Did you mean": the closest of the known names, for messages that teach. */
export function didYouMean(given: string, known: readonly string[]): string {
  let best: string | undefined;
  let bestDistance = maxTypos(given.length) + 1;
  for (const candidate of known) {
    const typos = editDistance(given.toLowerCase(), candidate.toLowerCase());
    const distance = isForm(given, candidate) ? Math.min(typos, 1) : typos;
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best === undefined ? '' : ` Did you mean "${best}"?`;
}

/** Another form of the same word: `retry` of `retries`, `queue` of `queues`. */
function isForm(given: string, known: string): boolean {
  const stem = (word: string): string =>
    word
      .toLowerCase()
      .replace(/(ies|y)$/, '')
      .replace(/s$/, '');
  return stem(given) === stem(known);
}

/** In a short name, all but every letter could be one: what has nothing in common is not what was meant. */
function maxTypos(length: number): number {
  return length < 4 ? Math.floor(length / 2) : Math.max(2, Math.floor(length / 3));
}

/** Letters to insert, leave out, replace, or swap with their neighbour. */
function editDistance(a: string, b: string): number {
  let beforeThat: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? (beforeThat[j - 2] ?? 0) + 1 : substitution;
      current.push(Math.min(substitution, swap, (previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1));
    }
    [beforeThat, previous] = [previous, current];
  }
  return previous[b.length] ?? 0;
}
