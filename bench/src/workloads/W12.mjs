/** W12: what many processes on one database do for each other's speed, with quick commits and with slow ones. */

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'a fleet of 1, 4, 12 and 24 worker processes, with commits of 0 and 5 ms',
  uses: 'fleet',
  onlyByName: true,
  // The command line says which: `--workers`, `--commit-ms`.
  cases: [],
};
