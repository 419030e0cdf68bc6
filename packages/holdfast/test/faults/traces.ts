import type { Trace } from './interpreter.js';

/**
 * Returns how executions of the same workflows differ in what their code saw, by workflow, oldest first. The last two
 * executions of `id` are its last live run and the replay of its finished history. These two must have the same
 * length.
 */
export function divergencesOf(seen: ReadonlyMap<string, readonly Trace[]>, id: string): string[] {
  const [finished, replayed] = seen.get(id)?.slice(-2) ?? [];
  const cutShort = finished?.length === replayed?.length ? [] : ['the replay of the finished history saw another end'];
  const differing = [...seen].flatMap(([workflowId, traces]) => {
    const longest = traces.reduce((a, b) => (b.length > a.length ? b : a));
    return traces
      .filter((trace) => firstDifference(trace, longest) !== undefined)
      .map((trace) => `${workflowId} saw ${firstDifference(trace, longest)}`);
  });
  return [...cutShort, ...differing];
}

function firstDifference(trace: Trace, longest: Trace): string | undefined {
  const at = trace.findIndex((event, i) => event !== longest[i]);
  return at < 0 ? undefined : `"${trace[at]}" and "${longest[at]}" at event ${at}`;
}
