/** The rule against import cycles between files. Imports of types count, too. */
import { posix } from 'node:path';

const sourceEndings = { '.js': ['.ts', '.tsx', '.js'], '.mjs': ['.mts', '.mjs'], '.jsx': ['.tsx'] };

/** Returns one violation for each group of files that import each other, with a shortest cycle. */
export function cycleViolations(files) {
  const graph = importGraph(files);
  const reported = new Set();
  const violations = [];
  for (const file of files) {
    if (reported.has(file.path)) continue;
    const cycle = shortestCycle(graph, file.path);
    if (cycle === null) continue;
    for (const path of groupOf(graph, file.path)) reported.add(path);
    violations.push({
      path: file.path,
      line: graph.get(file.path).get(cycle[1]),
      what: `import cycle: ${cycle.join(' -> ')}`,
      advice: 'Move what the files share into a file that imports none of them.',
    });
  }
  return violations;
}

/** Maps each file to the files that it imports, with the line of the import. */
function importGraph(files) {
  const known = new Set(files.map((file) => file.path));
  const graph = new Map();
  for (const file of files) {
    const targets = new Map();
    for (const { specifier, line } of file.imports) {
      const target = resolve(file.path, specifier, known);
      if (target !== null && !targets.has(target)) targets.set(target, line);
    }
    graph.set(file.path, targets);
  }
  return graph;
}

/** Relative imports name the built file (`./a.js`). The source file may have another ending. */
function resolve(from, specifier, known) {
  if (!specifier.startsWith('.')) return null;
  const target = posix.join(posix.dirname(from), specifier);
  const ending = posix.extname(target);
  const stem = target.slice(0, target.length - ending.length);
  const candidates = [target, ...(sourceEndings[ending] ?? []).map((source) => stem + source)];
  return candidates.find((candidate) => known.has(candidate)) ?? null;
}

/** Searches breadth first, and returns the shortest cycle as `[start, ..., start]`, or null. */
function shortestCycle(graph, start) {
  const ways = [[start]];
  const seen = new Set();
  for (const way of ways) {
    for (const next of graph.get(way.at(-1)).keys()) {
      if (next === start) return [...way, start];
      if (seen.has(next)) continue;
      seen.add(next);
      ways.push([...way, next]);
    }
  }
  return null;
}

/** Returns the files that `start` reaches and that reach `start`. */
function groupOf(graph, start) {
  const reached = reachable(graph, start);
  return [...reached].filter((path) => reachable(graph, path).has(start));
}

function reachable(graph, start) {
  const found = new Set();
  const waiting = [start];
  for (const path of waiting) {
    for (const next of graph.get(path).keys()) {
      if (found.has(next)) continue;
      found.add(next);
      waiting.push(next);
    }
  }
  return found;
}
