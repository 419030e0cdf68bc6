export { ConfiguredInstance } from './configured-instance.js';
export { className, type MethodOptions, requireRole, type StepMethodOptions, step, workflow } from './decorators.js';
export { type Invocations, invoke } from './invoke.js';
