import { randomUUID } from 'node:crypto';

/**
 * Launches DBOS for a measurement with several processes. Each process is its own executor; all have one version.
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
