/** Owns what the hand-written systems put into their rows: values as long as those a library leaves behind. */

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

/** Ids that grow with time, as UUIDv7 does, and cost nearly nothing to make. */
export function newIds(/** @type {number} */ count) {
  const time = Date.now().toString(16).padStart(12, '0');
  const prefix = `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-`;
  return Array.from({ length: count }, () => prefix + (++made).toString(16).padStart(12, '0'));
}
