import { register } from './instances.js';

/**
 * An object whose methods can be workflows. Its name tells it from other instances of its class: a stored workflow finds
 * its instance by class and name, in whichever process goes on with it. Construct the same instances in every process,
 * before `launch`.
 */
export abstract class ConfiguredInstance {
  readonly configName: string;

  /** What can fail belongs before the call of this constructor: from here on the name is taken. */
  constructor(configName: string) {
    this.configName = configName;
    register(this, new.target, configName);
  }
}
