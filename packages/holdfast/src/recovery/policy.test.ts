import { expect, it } from 'vitest';
import { checkRecovery, checkWorkflowRecovery, policyFor } from '../model/recovery.js';
import { plainKey } from '../model/workflow-key.js';
import { decisionFor, insisting, judge } from './policy.js';

const now = 1_000_000;
const run = { startedAt: now - 1000, attempts: 1 };

function policy(own: Parameters<typeof checkWorkflowRecovery>[1] = {}, app: Parameters<typeof checkRecovery>[0] = {}) {
  return policyFor(checkWorkflowRecovery('Workflow "wf"', own), checkRecovery(app));
}

it('resumes by default, up to a hundred times', () => {
  expect(policy()).toEqual({
    resumable: true,
    autoResume: true,
    onNotResumed: 'wait',
    maxResumeAgeMs: null,
    maxAttempts: 100,
    onExceeded: 'dead-letter',
  });
  expect(judge(policy(), run, now).action).toBe('resume');
  expect(judge(policy(), { ...run, attempts: 100 }, now).action).toBe('resume');
  expect(judge(policy(), { ...run, attempts: 101 }, now).action).toBe('dead-letter');
});

it('takes a workflow at its own word, and the app’s for the rest', () => {
  const app = { autoResume: false, maxResumeAge: '1h', maxAttempts: 3, onExceeded: 'cancel' } as const;
  expect(policy({ recovery: { autoResume: true } }, app)).toMatchObject({
    autoResume: true,
    maxResumeAgeMs: 3_600_000,
  });
  expect(policy({ maxRecoveryAttempts: 7 }, app)).toMatchObject({ maxAttempts: 7, onExceeded: 'cancel' });
  expect(policy({ recovery: { maxAttempts: 0, onExceeded: 'dead-letter' } }, app)).toMatchObject({ maxAttempts: 0 });
});

it.each([
  ['too old before anything else', { maxResumeAge: 999, autoResume: false, maxAttempts: 0 }, 'cancel'],
  ['not too old at the very age', { maxResumeAge: 1000 }, 'resume'],
  [
    'had its attempts, cancelled although nothing is resumed',
    { maxAttempts: 0, onExceeded: 'cancel', autoResume: false },
    'cancel',
  ],
  ['of any age with a limit of 0', { maxResumeAge: 0 }, 'resume'],
  ['cancelled because it is not resumed', { autoResume: false, onNotResumed: 'cancel' }, 'cancel'],
  ['resumed whatever would happen otherwise', { onNotResumed: 'cancel' }, 'resume'],
  ['waits for an operator although it had its attempts', { maxAttempts: 0, autoResume: false }, 'wait-for-operator'],
] as const)('judges a run: %s', (_, recovery, action) => {
  expect(judge(policy({ recovery }), run, now).action).toBe(action);
});

it('lets a workflow opt out of the age limit of its app', () => {
  const app = { maxResumeAge: 999 };
  expect(judge(policy({}, app), run, now).action).toBe('cancel');
  expect(judge(policy({ recovery: { maxResumeAge: 0 } }, app), run, now).action).toBe('resume');
});

it('sets aside what is not resumable, even if it had its attempts', () => {
  expect(judge(policy({ resumable: false, maxRecoveryAttempts: 0 }), run, now).action).toBe('set-aside');
  expect(judge(policy({ resumable: false }, { autoResume: false }), run, now).action).toBe('wait-for-operator');
});

it('says in terms of a takeover just what it says to people', () => {
  const all = [
    { recovery: { maxResumeAge: 999 } },
    { recovery: { maxResumeAge: 1000 } },
    { recovery: { maxAttempts: 0, onExceeded: 'cancel' } },
    { recovery: { autoResume: false } },
    { recovery: { autoResume: false, onNotResumed: 'cancel' } },
    { recovery: { autoResume: false, onNotResumed: 'cancel', maxResumeAge: 999 } },
    { resumable: false },
    {},
  ] as const;
  for (const own of all) {
    const fate = decisionFor(plainKey('wf'), policy(own), now);
    const { action, because } = judge(policy(own), run, now);
    const isOld = fate.tooOld !== null && run.startedAt < fate.tooOld.startedBefore;
    const isExceeded = fate.exceeded !== null && run.attempts > fate.maxAttempts;
    const reason = isOld ? fate.tooOld?.reason : isExceeded ? fate.exceeded : fate.notResumed;
    const isDoomed = isOld || isExceeded || fate.notResumed !== null;
    expect(action === 'cancel').toBe(isDoomed);
    if (isDoomed) expect(because).toBe(reason);
    expect(action === 'wait-for-operator').toBe(!fate.resumes && !isDoomed);
    expect(action === 'set-aside').toBe(fate.setAside !== null);
  }
});

it('names the age in the words of the option', () => {
  const reasonOf = (maxResumeAge: string) =>
    decisionFor(plainKey('wf'), policy({ recovery: { maxResumeAge } }), now).tooOld?.reason;
  expect(reasonOf('24h')).toContain('(1d)');
  expect(reasonOf('90m')).toContain('(90m)');
  expect(reasonOf('1500ms')).toContain('(1500ms)');
});

it('gives way to an operator who insists', () => {
  const strict = policy({ resumable: false, recovery: { autoResume: false, maxResumeAge: 1, onExceeded: 'cancel' } });
  expect(judge(insisting(strict), run, now).action).toBe('resume');
});
