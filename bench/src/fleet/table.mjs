/** Owns the printed table of a fleet, with one line for each figure, and the goals of the figures. */
import { figure, figures, median } from '../figures.mjs';
import { fleetFlags, fleetLabel, fleetRows } from './cases.mjs';

/**
 * Goal for messages with slow commits: at least this share (`atLeast`) of the same messages without announcements
 * (`than`). `limit` is printed, too: the same messages as hand-written SQL.
 */
const messagesAim = { workers: 12, commitMs: 5, than: 'holdfast-unannounced', atLeast: 0.8, limit: 'raw' };

/** Goal for statements per workflow in a large fleet: at most this many times those of one worker. */
const statementsAim = { workers: 24, atMost: 2 };

/**
 * @param {import('../options.mjs').Plan} plan
 * @param {import('../trials.mjs').Sample[]} samples
 */
export function fleetTable({ workloads, systems }, samples) {
  const fleets = workloads.flatMap(({ cases }) => cases.flatMap(({ fleet }) => fleet ?? []));
  const medianOf = (
    /** @type {string} */ system,
    /** @type {import('./trial.mjs').FleetCase} */ fleet,
    /** @type {string} */ key,
  ) => median(figures(samples, fleetLabel(fleet), system, key));
  const head = ['commits', 'figure', 'system', ...workerCounts(fleets).map((workers) => `${workers} workers`)];
  const lines = commitTimes(fleets).flatMap((commitMs) =>
    fleetRows.flatMap(({ key, label }) =>
      systems.flatMap(({ name }) => {
        const values = workerCounts(fleets).map((workers) => medianOf(name, { workers, commitMs }, key));
        if (values.every((value) => Number.isNaN(value))) return [];
        return [`| +${commitMs} ms | ${label} | ${name} | ${values.map(figure).join(' | ')} |`];
      }),
    ),
  );
  const rule = head.map((_, column) => (column < 3 ? '---' : '--:'));
  const setUp = `The server has ${fleetFlags[1]}; a commit of +n ms has commit_delay = n ms and commit_siblings = 0.`;
  const table = [setUp, '', `| ${head.join(' | ')} |`, `|${rule.join('|')}|`, ...lines].join('\n');
  const verdicts = systems.flatMap(({ name }) =>
    name.startsWith('holdfast') ? verdictsOf(name, fleets, medianOf) : [],
  );
  return verdicts.length > 0 ? `${table}\n\n${verdicts.join('\n')}` : table;
}

/**
 * @param {string} name
 * @param {import('./trial.mjs').FleetCase[]} fleets
 * @param {(system: string, fleet: import('./trial.mjs').FleetCase, key: string) => number} medianOf
 */
function verdictsOf(name, fleets, medianOf) {
  const lines = [];
  const { workers: senders, commitMs: slower, than, atLeast, limit } = messagesAim;
  const what = `messages with commits of +${slower} ms and ${senders} senders`;
  for (const other of name === than ? [limit] : [than, limit]) {
    const share = medianOf(name, messagesAim, 'messages') / medianOf(other, messagesAim, 'messages');
    if (Number.isNaN(share)) continue;
    const verdict = other === than ? ` (≥ ${atLeast}: ${share >= atLeast ? 'met' : 'missed'})` : '';
    lines.push(`- ${name}: ${what}: ${figure(share)} × ${other}${verdict}`);
  }
  for (const commitMs of commitTimes(fleets)) {
    for (const key of ['statements', 'limitedStatements']) {
      const { workers, atMost } = statementsAim;
      const growth = medianOf(name, { workers, commitMs }, key) / medianOf(name, { workers: 1, commitMs }, key);
      if (Number.isNaN(growth)) continue;
      const what = `statements per workflow${key === 'statements' ? '' : ' with a limit'}, 1 to ${workers} workers`;
      lines.push(
        `- ${name}: ${what}, commits of +${commitMs} ms: × ${figure(growth)} (≤ ${atMost}: ${growth <= atMost ? 'met' : 'missed'})`,
      );
    }
  }
  return lines;
}

/** @param {import('./trial.mjs').FleetCase[]} fleets */
function workerCounts(fleets) {
  return [...new Set(fleets.map(({ workers }) => workers))];
}

/** @param {import('./trial.mjs').FleetCase[]} fleets */
function commitTimes(fleets) {
  return [...new Set(fleets.map(({ commitMs }) => commitMs))];
}
