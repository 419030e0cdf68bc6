/** A separate program: starts an expense report, decides, and reads the diary. `node approve.mjs [yes|no]` */
import { connect } from 'holdfast';
import { decision, diary, state } from './expense.mjs';

const approved = process.argv[2] !== 'no';
const client = await connect({ name: 'expenses', database: process.env.EXPENSES_DATABASE });
const app = client;
const handle = await client.start('expense', {}, 'Ada', 4200);
console.log(await state.get(handle.id, { app }));
await decision.send(handle.id, { by: 'Grace', approved }, { app, idempotencyKey: `decision on ${handle.id}` });
for await (const line of diary.read(handle.id, { app })) console.log(`  ${line}`);
console.log(await handle.result());
await client.close();
