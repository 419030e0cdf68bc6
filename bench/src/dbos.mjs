import { randomUUID } from 'node:crypto';

/**
 * DBOS as every measurement with several processes configures it: each process an executor of one version.
 *
 * @param {string} url
 * @param {{ listenQueues?: string[], executorID?: string }} [more]
 */
export async function configuredDbos(url, more = {}) {
  const sdk = await import('@dbos-inc/dbos-sdk');
  sdk.DBOS.setConfig({
    name: 'bench',
    systemDatabaseUrl: url,
    logLevel: 'error',
    applicationVersion: 'bench',
    executorID: randomUUID(),
    ...more,
  });
  return sdk;
}
