import { approval, checkout } from '../../../workflows';

export const dynamic = 'force-dynamic';

export async function GET() {
  const handle = await checkout.start('order-7');
  await approval.send(handle.id, 'Ada');
  return Response.json({ result: await handle.result() });
}
