/** Runs expense reports. Kill it and start it again as often as you like: waiting reports continue to wait. */
import { launch } from 'holdfast';
import { expense } from './expense.mjs';

const app = await launch({
  name: 'expenses',
  database: process.env.EXPENSES_DATABASE,
  version: '1',
  workflows: [expense],
});
process.once('SIGTERM', () => app.shutdown());
console.log('ready');
