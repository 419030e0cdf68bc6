/** Owns the cases of a fleet: the number of workers, the duration of a commit, and the rows of figures. */

/** The default of a hundred connections is too low for 24 processes of a library that uses ten per process. */
export const fleetFlags = ['-c', 'max_connections=500'];

/**
 * Delays each commit before it goes to disk, like a network disk or a synchronous standby. Commits that wait at the
 * same time are written together, as they are there.
 *
 * @param {import('./trial.mjs').FleetCase} fleetCase
 * @returns {Record<string, string>} settings for all sessions of a database
 */
export function commitSettings({ commitMs }) {
  return commitMs === 0 ? {} : { commit_delay: String(commitMs * 1000), commit_siblings: '0' };
}

/** The rows of figures of one case, by key. */
export const fleetRows = [
  { key: 'commitMs', label: 'commit of one row by hand: p50 ms' },
  { key: 'drain', label: 'drain: workflows/s' },
  { key: 'pickUpP50', label: 'pick-up: p50 ms' },
  { key: 'pickUpP99', label: 'pick-up: p99 ms' },
  { key: 'limitedP50', label: 'pick-up with a limit: p50 ms' },
  { key: 'statements', label: 'statements per workflow' },
  { key: 'limitedStatements', label: 'the same with a limit' },
  { key: 'multixacts', label: 'MultiXacts per 1,000 picked up' },
  { key: 'drainMultixacts', label: 'the same drained' },
  { key: 'messages', label: 'messages/s' },
  { key: 'bystanderCpu', label: 'CPU of a bystander: %' },
  { key: 'idleSessions', label: 'connections per process, idle' },
  { key: 'busySessions', label: 'busy' },
  { key: 'idleStatements', label: 'statements/s of the idle fleet' },
];

/**
 * @param {number[]} workerCounts
 * @param {number[]} commitTimes
 * @returns {import('../catalogue.mjs').Case[]}
 */
export function fleetCases(workerCounts, commitTimes) {
  return commitTimes.flatMap((commitMs) =>
    workerCounts.map((workers) => {
      const label = fleetLabel({ workers, commitMs });
      const measure = () => Promise.reject(new Error('A fleet is measured from outside its processes.'));
      return { label, rows: fleetRows, fleet: { workers, commitMs }, measure };
    }),
  );
}

/** @param {import('./trial.mjs').FleetCase} fleetCase */
export function fleetLabel({ workers, commitMs }) {
  return `W12 commits +${commitMs} ms, ${workers} workers`;
}
