/** One class for all countries. Each instance has a name, and settings that are not stored in the database. */
import { run } from 'holdfast';
import { ConfiguredInstance, requireRole, step, workflow } from 'holdfast/classes';

export class Shop extends ConfiguredInstance {
  constructor(
    country: string,
    private readonly settings: { readonly currency: string; readonly vat: number },
  ) {
    super(country);
  }

  @workflow()
  async checkout(order: string, net: number): Promise<string> {
    const price = await this.charge(order, net);
    const parcel = await this.ship(order);
    return `${price}, ${parcel}`;
  }

  /** Only clerks may start this workflow. It calls another method as a child workflow. */
  @requireRole('clerk')
  @workflow()
  async replace(order: string): Promise<string> {
    return `replaced: ${await this.checkout(`${order} again`, 0)}`;
  }

  @workflow()
  static async report(countries: readonly string[]): Promise<string> {
    return run('write report', () => `report on ${countries.join(' and ')}`);
  }

  @step({ retries: 3 })
  private async charge(order: string, net: number): Promise<string> {
    const { currency, vat } = this.settings;
    console.log(`${this.configName}: charging for ${order}`);
    return `${(net * (1 + vat)).toFixed(2)} ${currency}`;
  }

  @step()
  private async ship(order: string): Promise<string> {
    console.log(`${this.configName}: shipping ${order}`);
    // Leaves enough time to kill the process here.
    await new Promise((resolve) => setTimeout(resolve, Number(process.env.SHIPPING_MS ?? 2000)));
    return `shipped in ${this.configName}`;
  }
}
