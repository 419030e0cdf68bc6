import { violationsByKind } from './checks.js';
import { groupBy, type SoakEvidence } from './evidence.js';
import { type Faults, neverLanded } from './faults.js';

export interface Summary {
  readonly seed: string;
  readonly seconds: number;
  readonly faults: Faults;
  readonly evidence: SoakEvidence;
  readonly operator: { readonly cancels: number; readonly resumes: number; readonly changes: number };
  /** The violations. */
  readonly found: readonly string[];
  /** The number of processes that logged that the database has gone back in time. */
  readonly noticed?: number;
}

const maxShown = 40;

export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** A table with two columns: name and number. */
export function tableOf({ seed, seconds, faults, evidence, operator, found, noticed }: Summary): string[] {
  const { workflows, steps, messages, streams, entries } = evidence;
  const statuses = groupBy(workflows, (row) => String(row.status));
  const calls = entries.filter(({ kind }) => kind === 'told').length;
  const figures: Record<string, unknown> = {
    seed,
    seconds: Math.round(seconds),
    kills: faults.kills,
    'stops beyond the time to live': faults.stops,
    'workflows taken from a stopped process': faults.takenFromStopped,
    'Postgres restarts': faults.restarts,
    'proxy cuts': faults.cuts,
    deploys: faults.deploys,
    ...(faults.restores !== undefined && {
      'backups put back': faults.restores,
      'families of workflows that this undid': evidence.undone?.size ?? 0,
      'workflows started again': entries.filter(({ kind }) => kind === 'started again').length,
      'lines of the log that say so': noticed ?? 0,
    }),
    'cancels, resumes, changes of queues': `${operator.cancels}, ${operator.resumes}, ${operator.changes}`,
    'calls that failed and were made again': calls,
    'workflows started': workflows.length,
    'workflows run again': workflows.filter((row) => Number(row.recovery_attempts) > 1).length,
    ...Object.fromEntries([...statuses].map(([status, rows]) => [`workflows ${status}`, rows.length])),
    'of them deleted by retention': evidence.gone.length,
    'steps on record': steps.length,
    'bodies begun': entries.filter(({ kind }) => kind === 'start').length,
    messages: messages.length,
    'values in streams': streams.length,
    transactions: evidence.counters.length,
    violations: found.length,
  };
  const wide = Math.max(...Object.keys(figures).map((name) => name.length));
  return Object.entries(figures).map(([name, value]) => `${name.padEnd(wide)}  ${value}`);
}

/** The verdict of the run, in words. */
export function verdictOf(summary: Summary): string {
  const { found, faults, evidence } = summary;
  const shown = found.slice(0, maxShown).map((text) => `  ${text}`);
  const more = found.length > maxShown ? [`  and ${found.length - maxShown} more`] : [];
  if (found.length > 0) return [`VIOLATIONS: ${violationsByKind(found)}`, ...shown, ...more].join('\n');
  const missing = [...neverLanded(faults), ...nothingDone(evidence)];
  if (faults.restores !== undefined && !summary.noticed) missing.push('processes that noticed the restore');
  if (missing.length > 0) return `VOID: this run proves nothing, because there were none of: ${missing.join(', ')}`;
  return 'Every promise was kept.';
}

export function exitCodeOf(summary: Summary): 0 | 1 | 2 {
  if (summary.found.length > 0) return 1;
  return verdictOf(summary).startsWith('VOID') ? 2 : 0;
}

function nothingDone({ workflows, gone }: SoakEvidence): string[] {
  const missing: string[] = [];
  if (!workflows.some((row) => row.status === 'SUCCESS')) missing.push('workflows that succeeded');
  if (!workflows.some((row) => Number(row.recovery_attempts) > 1)) missing.push('workflows that were run again');
  if (gone.length === 0) missing.push('workflows that retention has deleted');
  return missing;
}
