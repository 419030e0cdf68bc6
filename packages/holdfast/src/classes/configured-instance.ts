import { registerInstance } from './instances.js';

/**
 * The base class of objects whose methods are workflows. A stored workflow finds its instance by class and instance
 * name, in any process that continues it. Construct the same instances in every process, before `launch`.
 *
 * @example
 * ```ts
 * class Shop extends ConfiguredInstance {
 *   constructor(readonly country: string) {
 *     super(country); // the instance name
 *   }
 *
 *   \@workflow()
 *   async checkout(orderId: string): Promise<void> {
 *     await this.charge(orderId);
 *   }
 *
 *   \@step()
 *   async charge(orderId: string): Promise<void> {}
 * }
 *
 * const norway = new Shop('norway');
 * await launch({ workflows: [Shop] });
 * await norway.checkout('order-7');
 * ```
 */
export abstract class ConfiguredInstance {
  readonly configName: string;

  /** Run code that can fail before you call this constructor, because this constructor registers the name. */
  constructor(configName: string) {
    this.configName = configName;
    registerInstance(this, new.target, configName);
  }
}
