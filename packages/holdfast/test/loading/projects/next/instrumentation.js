export async function register() {
  if (process.env.NEXT_RUNTIME !== 'nodejs') return;
  const { launch } = await import('holdfast');
  const { checkout } = await import('./workflows');
  await launch({ name: 'next', database: process.env.DATABASE, workflows: [checkout] });
}
