/**
 * Prints the last line of .ci/run, `N passed, N failed`. The line counts tests and checks together, and the smoke test
 * on the Postgres server of this machine if there is one.
 *
 * Usage: node scripts/ci-summary.mjs <vitest report> <exit code of npm test> <check report> <exit code of the checks>
 *          [<vitest report> <exit code of the smoke test>]
 *
 * **Invariant:** `0 failed` means that tests and checks ran and passed. Each of these counts as one failed: a missing
 * report, a failure that belongs to no single test (a file that does not load, an unhandled rejection), a run of no
 * tests.
 */
import { readFileSync } from 'node:fs';

const [testReport, testExit, checkReport, checkExit, ...smoke] = process.argv.slice(2);

function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}

function tally(what, counts, exitCode) {
  const { passed, failed } = counts ?? { passed: 0, failed: 0 };
  if (failed > 0) return { passed, failed };
  const complaint = complaintAbout(counts, exitCode);
  if (complaint === null) return { passed, failed };
  console.log(`${what}: ${complaint}`);
  return { passed, failed: 1 };
}

function complaintAbout(counts, exitCode) {
  if (counts === null) return 'no report was written, see above';
  if (exitCode !== '0' || !counts.ok) return `failed (exit code ${exitCode}) without a failed test, see above`;
  return counts.passed === 0 ? 'no test or check ran' : null;
}

function tallyTests(what, report, exitCode) {
  const vitest = read(report);
  const counts = vitest && { passed: vitest.numPassedTests, failed: vitest.numFailedTests, ok: vitest.success };
  return tally(what, counts, exitCode);
}

function main() {
  const tests = [tallyTests('npm test', testReport, testExit)];
  if (smoke.length > 0) tests.push(tallyTests('npm run test:postgres -- system smoke', ...smoke));
  const checkCounts = read(checkReport);
  const checks = tally('npm run check', checkCounts && { ...checkCounts, ok: true }, checkExit);
  const sum = (which) => [...tests, checks].reduce((all, counts) => all + counts[which], 0);
  const failed = sum('failed');
  console.log(`${sum('passed')} passed, ${failed} failed`);
  if (failed > 0) process.exitCode = 1;
}

main();
