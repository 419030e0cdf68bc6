export { CrashClock, type CrashPoint, crashPhases, parseCrashPoint } from './crash-point.js';
export { Signals } from './signals.js';
export { type TestApp, type TestAppOptions, testApp } from './test-app.js';
export { VirtualClock } from './virtual-clock.js';
