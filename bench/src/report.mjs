/** Owns what a run prints: the facts of the machine and two markdown tables. */
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { arch, availableParallelism, cpus, loadavg, platform, tmpdir, totalmem } from 'node:os';

/** The system that everything is compared with, besides the hand-written SQL on its own kind of database. */
const peer = 'dbos';

/** What Linux calls the type of a file system that lives in memory. */
const tmpfs = 0x01021994;

/** @param {{ version: string }} server */
export async function machineFacts(server) {
  const inMemory = (await statfs(tmpdir())).type === tmpfs;
  return [
    `- ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`,
    `- ${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), ` +
      `${Math.round(totalmem() / 2 ** 30)} GB, ${platform()} ${arch()}${loadAverage()}`,
    `- Node ${process.versions.node}, Postgres ${server.version} (its default settings, fsync on), ` +
      `DBOS SDK ${packageVersion('@dbos-inc/dbos-sdk')}`,
    ...(inMemory ? [`- ${tmpdir()} is in memory: fsync costs nothing here, which flatters whoever commits most`] : []),
  ].join('\n');
}

/**
 * @param {import('./options.mjs').Plan} plan
 * @param {import('./trials.mjs').Sample[]} samples
 */
export function resultsTable(plan, samples) {
  const lines = [`| work | system | median | min–max | × ${peer} | × raw |`, '|---|---|--:|--:|--:|--:|'];
  for (const { label: caseLabel, rows } of plan.workloads.flatMap((workload) => workload.cases)) {
    for (const row of rows) {
      const medianOf = (/** @type {string} */ name) => median(figures(samples, caseLabel, name, row.key));
      for (const { name, limit } of plan.systems) {
        const all = figures(samples, caseLabel, name, row.key);
        const spread = all.length === 0 ? '-' : `${figure(Math.min(...all))}–${figure(Math.max(...all))}`;
        const own = median(all);
        const ratios = [peer, limit].map((other) => figure(own / medianOf(other)));
        lines.push(`| ${row.label} | ${name} | ${figure(own)} | ${spread} | ${ratios.join(' | ')} |`);
      }
    }
  }
  return lines.join('\n');
}

/**
 * @param {import('./options.mjs').Plan} plan
 * @param {import('./trials.mjs').Sample[]} samples
 */
export function costTable(plan, samples) {
  const lines = [
    '| per workflow | system | SQL statements | commits | WAL bytes | Node CPU ms | Postgres CPU ms |',
    '|---|---|--:|--:|--:|--:|--:|',
  ];
  for (const { label } of plan.workloads.flatMap((workload) => workload.cases)) {
    for (const { name } of plan.systems) {
      const own = samples.filter((sample) => sample.system === name && sample.caseLabel === label);
      const cell = (/** @type {keyof import('./trials.mjs').PerWorkflow} */ key) =>
        figure(median(own.flatMap(({ perWorkflow }) => perWorkflow[key] ?? [])));
      const keys = /** @type {const} */ (['statements', 'commits', 'walBytes', 'nodeMs', 'postgresMs']);
      lines.push(`| ${label} | ${name} | ${keys.map(cell).join(' | ')} |`);
    }
  }
  return lines.join('\n');
}

/**
 * @param {import('./trials.mjs').Sample[]} samples
 * @param {string} caseLabel
 * @param {string} system
 * @param {string} key
 */
function figures(samples, caseLabel, system, key) {
  return samples
    .filter((sample) => sample.system === system && sample.caseLabel === caseLabel)
    .map((sample) => sample.values[key]);
}

/** @param {number[]} values */
function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 === 1 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * As many digits as mean something; NaN is what was not measured.
 *
 * @param {number} value
 */
export function figure(value) {
  if (Number.isNaN(value)) return '-';
  if (value >= 100) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(value >= 10 ? 3 : 2)));
}

function loadAverage() {
  return platform() === 'win32' ? '' : `, load ${loadavg()[0].toFixed(2)} before the run`;
}

/** @param {string} name */
function packageVersion(name) {
  const entry = import.meta.resolve(name);
  const root = entry.slice(0, entry.lastIndexOf(`/${name}/`) + name.length + 2);
  return JSON.parse(readFileSync(new URL('package.json', root), 'utf8')).version;
}
