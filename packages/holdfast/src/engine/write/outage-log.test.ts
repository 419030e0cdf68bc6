import { expect, it } from 'vitest';
import type { Logger } from '../../model/logger.js';
import { limitOutages, type Retried } from './outage-log.js';

function limitedLogger() {
  const lines: string[] = [];
  const keep = (message: string): void => void lines.push(message);
  const logger: Logger = { debug: keep, info: keep, warn: keep, error: keep };
  const time = { now: 0 };
  const log = limitOutages(
    logger,
    (error) => error === 'outage',
    () => time.now,
  );
  const fail = (message: string, retriedAfter: unknown = 'outage'): void =>
    log.warn(message, { retriedAfter } as Retried);
  return { lines, log, fail, time };
}

it('logs an outage by one line a second, and counts the lines that it leaves out', () => {
  const { lines, fail, time } = limitedLogger();
  for (let at = 0; at < 2_100; at += 100) {
    time.now = at;
    for (const source of ['a', 'b']) fail(`${source} at ${at}`);
  }
  const more = '(19 more failures since the last one)';
  expect(lines).toEqual(['a at 0', `a at 1000 ${more}`, `a at 2000 ${more}`]);
});

it('always logs failures that are no outage, and lines without a retry', () => {
  const { lines, log, fail } = limitedLogger();
  fail('outage');
  fail('refused', 'a refusal');
  log.warn('plain');
  log.warn('with details', { workflowId: 'w' });
  log.error('error');
  log.info('info');
  log.debug('debug');
  expect(lines).toEqual(['outage', 'refused', 'plain', 'with details', 'error', 'info', 'debug']);
});
