/** Decides from the effects file and from the database whether a finished step ran twice. */
import { readFileSync } from 'node:fs';
import { launch } from 'holdfast';
import { checkout } from './workflows.mjs';

const stepNames = ['reserve stock', 'charge card', 'ship'];

/** Reads the record of order-7 in a process that did not run it. */
export async function readRecord(database) {
  const app = await launch({ name: 'shop', database, workflows: [checkout] });
  try {
    return { workflow: await app.workflows.get('order-7'), steps: await app.workflows.steps('order-7') };
  } finally {
    await app.shutdown();
  }
}

export function proofOf({ effects, record, killed, revived }) {
  const happened = readFileSync(effects, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const steps = stepNames.map((step) => describe(step, happened, record, killed));
  const claims = claimsOf({ happened, record, killed, revived });
  return { steps, claims, holds: claims.every((claim) => claim.holds) };
}

function claimsOf({ happened, record, killed, revived }) {
  const doneBy = (step) => happened.filter((each) => each.step === step && each.what === 'done').map(({ pid }) => pid);
  const only = (step, pid) => doneBy(step).length === 1 && doneBy(step)[0] === pid;
  const { workflow, steps } = record;
  return [
    {
      sentence: `Reserving and charging happened once each, in process ${killed.pid}, before it was killed.`,
      holds: only('reserve stock', killed.pid) && only('charge card', killed.pid),
    },
    { sentence: `Shipping was completed once, in process ${revived.pid}.`, holds: only('ship', revived.pid) },
    {
      sentence: 'The database holds each step once, in order: two recorded before the kill, one after.',
      holds:
        steps.map(({ name }) => name).join() === stepNames.join() &&
        steps.map(({ completedAt }) => completedAt < killed.diedAt).join() === 'true,true,false',
    },
    {
      sentence: 'The workflow succeeded at its second attempt, with the receipt of the first.',
      holds: workflow?.status === 'SUCCESS' && workflow.attempts === 2 && workflow.output.receipt === steps[1]?.output,
    },
  ];
}

function describe(step, happened, record, killed) {
  const own = happened.filter((each) => each.step === step);
  const runs = own.map(({ pid, what }) => `${what} in ${pid}`).join(', ');
  const recorded = record.steps.find(({ name }) => name === step);
  const when = recorded?.completedAt < killed.diedAt ? 'before' : 'after';
  return { step, runs, recorded: recorded ? `recorded ${when} the kill` : 'not recorded' };
}
