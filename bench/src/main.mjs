/** Entry of `npm run bench`: connects the command line, the server, the trials and the report, and cleans up. */
import { loadSystems, loadWorkloads } from './catalogue.mjs';
import { stopContestants } from './contestant.mjs';
import { fleetFlags } from './fleet/cases.mjs';
import { parsePlan, UsageError, usage } from './options.mjs';
import { startPostgres } from './postgres.mjs';
import { machineFacts, resultTables } from './report.mjs';
import { runTrials } from './trials.mjs';

const progress = (/** @type {string} */ line) => process.stderr.write(`${line}\n`);

/**
 * @param {string[]} argv
 * @returns {Promise<number>} exit code: 1 if a system failed
 */
async function main(argv) {
  const [workloads, systems] = await Promise.all([loadWorkloads(), loadSystems()]);
  const plan = parsePlan(argv, workloads, systems);
  if (plan === 'help') {
    console.log(usage(workloads, systems));
    return 0;
  }

  const began = performance.now();
  progress('starting Postgres');
  if (plan.postgres === 'system') process.env.HOLDFAST_POSTGRES = 'system';
  // For the processes of `holdfast-before`.
  if (plan.before) process.env.HOLDFAST_BEFORE = plan.before;
  const server = await startPostgres(plan.workloads.some(({ uses }) => uses === 'fleet') ? fleetFlags : []);
  const facts = await machineFacts(server);
  const { samples, failures } = await runTrials(plan, server, progress, interrupt.signal).finally(server.stop);

  const took = Math.round((performance.now() - began) / 1000);
  const rounds = `${plan.rounds} ${plan.rounds === 1 ? 'round' : 'rounds'}${plan.quick ? ', quick' : ''}`;
  console.log(`\n${facts}\n- ${rounds}, ${took} s in all\n`);
  console.log(resultTables(plan, samples).join('\n\n'));
  for (const { system, workload, message } of failures) console.log(`\n${system} failed in ${workload}: ${message}`);
  return failures.length > 0 ? 1 : 0;
}

const interrupt = new AbortController();
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, () => {
    progress('stopping');
    interrupt.abort(new UsageError(`Stopped by ${signal}.`));
    stopContestants();
  });
}
process.on('exit', stopContestants);

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  // Mistakes of the user and interruptions need no stack trace.
  console.error(error instanceof UsageError ? error.message : error);
  process.exit(error instanceof UsageError ? 2 : 1);
}
