import { expect, it } from 'vitest';
import { checkRecovery, checkWorkflowRecovery, policyFor } from '../model/recovery.js';
import { plainKey } from '../model/workflow-key.js';
import { decisionFor, forcedPolicy, judge } from './policy.js';

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

it('uses the settings of the workflow, and those of the app for the rest', () => {
  const app = { autoResume: false, maxResumeAge: '1h', maxAttempts: 3, onExceeded: 'cancel' } as const;
  expect(policy({ recovery: { autoResume: true } }, app)).toMatchObject({
    autoResume: true,
    maxResumeAgeMs: 3_600_000,
  });
  expect(policy({ maxRecoveryAttempts: 7 }, app)).toMatchObject({ maxAttempts: 7, onExceeded: 'cancel' });
  expect(policy({ recovery: { maxAttempts: 0, onExceeded: 'dead-letter' } }, app)).toMatchObject({ maxAttempts: 0 });
});

it.each([
  ['cancelled for its age before any other rule', { maxResumeAge: 999, autoResume: false, maxAttempts: 0 }, 'cancel'],
  ['resumed at exactly the maximum age', { maxResumeAge: 1000 }, 'resume'],
  [
    'cancelled after its last attempt, even with autoResume: false',
    { maxAttempts: 0, onExceeded: 'cancel', autoResume: false },
    'cancel',
  ],
  ['resumed at any age with a limit of 0', { maxResumeAge: 0 }, 'resume'],
  ['cancelled because autoResume is false', { autoResume: false, onNotResumed: 'cancel' }, 'cancel'],
  ['resumed by default, whatever onNotResumed says', { onNotResumed: 'cancel' }, 'resume'],
  ['left to an operator even after its last attempt', { maxAttempts: 0, autoResume: false }, 'wait-for-operator'],
] as const)('judges a run: %s', (_, recovery, action) => {
  expect(judge(policy({ recovery }), run, now).action).toBe(action);
});

it('lets a workflow opt out of the age limit of its app', () => {
  const app = { maxResumeAge: 999 };
  expect(judge(policy({}, app), run, now).action).toBe('cancel');
  expect(judge(policy({ recovery: { maxResumeAge: 0 } }, app), run, now).action).toBe('resume');
});

it('stalls a workflow that is not resumable, even after its last attempt', () => {
  expect(judge(policy({ resumable: false, maxRecoveryAttempts: 0 }), run, now).action).toBe('stall');
  expect(judge(policy({ resumable: false }, { autoResume: false }), run, now).action).toBe('wait-for-operator');
});

it('gives the takeover statement the same decision as the plan for people', () => {
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
    const decision = decisionFor(plainKey('wf'), policy(own), now);
    const { action, because } = judge(policy(own), run, now);
    const isOld = decision.tooOld !== null && run.startedAt < decision.tooOld.startedBefore;
    const isExceeded = decision.exceeded !== null && run.attempts > decision.maxAttempts;
    const reason = isOld ? decision.tooOld?.reason : isExceeded ? decision.exceeded : decision.notResumed;
    const isCancelled = isOld || isExceeded || decision.notResumed !== null;
    expect(action === 'cancel').toBe(isCancelled);
    if (isCancelled) expect(because).toBe(reason);
    expect(action === 'wait-for-operator').toBe(!decision.resumes && !isCancelled);
    expect(action === 'stall').toBe(decision.stallReason !== null);
  }
});

it('states the age in the units of the option', () => {
  const reasonOf = (maxResumeAge: string) =>
    decisionFor(plainKey('wf'), policy({ recovery: { maxResumeAge } }), now).tooOld?.reason;
  expect(reasonOf('24h')).toContain('(1d)');
  expect(reasonOf('90m')).toContain('(90m)');
  expect(reasonOf('1500ms')).toContain('(1500ms)');
});

it('resumes a workflow that an operator recovers by its ID', () => {
  const strict = policy({ resumable: false, recovery: { autoResume: false, maxResumeAge: 1, onExceeded: 'cancel' } });
  expect(judge(forcedPolicy(strict), run, now).action).toBe('resume');
});
