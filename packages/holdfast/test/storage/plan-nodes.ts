/** Some fields of the output of `explain (analyze, buffers, format json)`. */
export interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly Plans?: readonly PlanNode[];
}

/** The planner settings of the connections for batches and pinned statements, independent of statistics. */
export const writerSettings = ['seqscan', 'hashjoin', 'mergejoin', 'bitmapscan']
  .map((each) => `set enable_${each} = off`)
  .join('; ');

/** Returns the number of table rows read, and the scans that read them. */
export function readBy(root: PlanNode): { readonly rows: number; readonly how: string } {
  const scans = flatten(root).filter((node) => node['Relation Name'] && node['Node Type'].includes('Scan'));
  return {
    rows: scans.reduce((sum, node) => sum + rowsRead(node), 0),
    how: scans.map((node) => `${node['Node Type']} ${node['Index Name'] ?? ''}: ${rowsRead(node)}`).join('\n'),
  };
}

export function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}

export function rowsRead(node: PlanNode): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0);
  return Math.round((node['Actual Rows'] + removed) * node['Actual Loops']);
}
