/** Owns the values that the hand-written systems store. They are as long as the values that a library stores. */

export const constants = {
  name: 'oneStep',
  stepName: 'step',
  executorId: 'local',
  version: '547a320a57b68e96d90794172dcec932',
  appName: 'bench',
  serialization: 'js_superjson',
  owner: 'dGhlIG93bmVyIHRv',
};

export const inputsOf = (/** @type {number} */ input) => `{"json":[${input}]}`;
export const outputOf = (/** @type {number} */ input) => `{"json":${input}}`;

let made = 0;

/** IDs that grow with time, like UUIDv7, and are cheap to create. */
export function newIds(/** @type {number} */ count) {
  const time = Date.now().toString(16).padStart(12, '0');
  const prefix = `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-`;
  return Array.from({ length: count }, () => prefix + (++made).toString(16).padStart(12, '0'));
}
