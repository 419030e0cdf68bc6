/**
 * `npm run demo`: kills a checkout half-way with SIGKILL, starts it again, and shows that no finished step ran twice.
 *
 * The exit code is 0 only if two independent sources prove it: the effects file, which the outside world wrote, and the
 * database, which this process reads after both workers have ended.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { proofOf, readRecord } from './proof.mjs';
import { startShop } from './shop-process.mjs';
import { bold, createTimeline, dim, green, pause, red, say } from './terminal.mjs';

async function main() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-demo-'));
  try {
    introduce(folder);
    const files = { database: `sqlite:${join(folder, 'shop.sqlite')}`, effects: join(folder, 'effects.jsonl') };
    const killed = await runAndKill(files);
    const revived = await runAgain(files);
    const proof = proofOf({ effects: files.effects, record: await readRecord(files.database), killed, revived });
    await showProof(proof);
    readOn();
    if (!proof.holds) process.exitCode = 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const timeline = createTimeline();

function introduce(folder) {
  say();
  say(bold('A checkout, killed half-way'));
  say();
  say('A workflow with three steps: reserve stock, charge card, ship. Its database is a new SQLite file in');
  say(`${folder}. There is no server.`);
  say();
  say(dim('   time    process  what happens'));
}

/** The first process reaches `ship`, where the carrier never answers, and is killed there. */
async function runAndKill(files) {
  const shop = startShop(files, { CARRIER: 'slow' });
  timeline.note(shop.pid, 'starts, and places order-7');
  const inTheMiddle = await narrate(shop, (event) => event.step === 'ship' && event.what === 'begun');
  if (!inTheMiddle) throw new Error(`The first process ended before it reached "ship".\n${shop.complaints()}`);
  await pause(700);
  await shop.kill();
  const diedAt = Date.now();
  timeline.note(shop.pid, red('✖ killed with SIGKILL: no handler runs, nothing is saved, memory is gone'));
  await pause(700);
  return { pid: shop.pid, diedAt };
}

async function runAgain(files) {
  const shop = startShop(files, {});
  timeline.note(shop.pid, 'starts, with the same code on the same file');
  const finished = await narrate(shop, (event) => event.what === 'finished');
  if (!finished) throw new Error(`The second process ended before the order was done.\n${shop.complaints()}`);
  await shop.ended;
  return { pid: shop.pid };
}

/** Prints the reports of the process. Returns the first report for which `isLast` is true. */
async function narrate(shop, isLast) {
  for await (const event of shop.events) {
    await tell(event);
    if (isLast(event)) return event;
  }
  return undefined;
}

async function tell({ pid, at, step, what, attempts, result }) {
  if (step && what === 'done') timeline.note(pid, green(`✔ ${step}`), at);
  else if (step) timeline.note(pid, `… ${step}: asks the carrier`, at);
  else if (what === 'running' && attempts > 1) timeline.note(pid, `has recovered order-7, attempt ${attempts}`, at);
  else if (what === 'finished')
    timeline.note(pid, green(bold(`✔ order-7 is done: ${Object.values(result).join(', ')}`)), at);
  await pause(400);
}

async function showProof(proof) {
  await pause(700);
  say();
  say(bold('What the outside world saw, and what the database recorded'));
  say();
  for (const { step, runs, recorded } of proof.steps) {
    say(`   ${step.padEnd(14)} ${runs.padEnd(52)} ${dim(recorded)}`);
  }
  say();
  for (const { holds, sentence } of proof.claims) say(`   ${holds ? green('✔') : red('✖')} ${sentence}`);
  say();
  if (proof.holds) {
    say('"ship" was started twice. It had not finished when the process died, so its outcome was not recorded. A step');
    say('runs at least once until its outcome is recorded. Give it an idempotency key: world.mjs shows one.');
  } else
    say(
      red(
        bold('The proof does not hold. Unless you changed workflows.mjs, that is a bug in Holdfast: please report it.'),
      ),
    );
}

function readOn() {
  say();
  say(bold('Read next'));
  say();
  say('   examples/checkout/workflows.mjs  the code of the workflow you just saw');
  say('   README.md                        what Holdfast does, in five minutes');
  say('   docs/guarantees.md               each promise, how it is kept, and the tests that hold it');
  say('   ARCHITECTURE.md                  the map of the code, and the life of a workflow');
  say('   examples/                        all examples');
  say();
}

await main().catch((error) => {
  say();
  say(red(`The demo failed: ${error.message}`));
  process.exitCode = 1;
});
