/** W12: how many processes on one database affect each other's speed, with quick commits and with slow ones. */

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'a fleet of 1, 4, 12 and 24 worker processes, with commits of 0 and 5 ms',
  uses: 'fleet',
  onlyByName: true,
  // The command line selects the cases: `--workers`, `--commit-ms`.
  cases: [],
};
