export { CrashClock, type CrashPoint, crashPhases, parseCrashPoint } from './crash-point.js';
export type { ExpectedStep, RecordedStep } from './recorded-steps.js';
export { Signals } from './signals.js';
export { type StepStubs, type StubFunction, stub } from './stubs.js';
export { type TestApp, type TestAppOptions, testApp } from './test-app.js';
export { type MoveOptions, VirtualClock } from './virtual-clock.js';
