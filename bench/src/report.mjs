/** Owns what a run prints: the facts of the machine, and markdown tables. */
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { arch, availableParallelism, cpus, loadavg, platform, tmpdir, totalmem } from 'node:os';
import { takesPart } from './catalogue.mjs';
import { figure, figures, median } from './figures.mjs';
import { fleetTable } from './fleet/table.mjs';

/** Workflows are compared with these systems, and with hand-written SQL on the same kind of database. */
const peer = 'dbos';

/** Queues are compared with these systems. */
const queuePeers = ['dbos', 'graphile-worker', 'pg-boss'];

/** Messages are compared with these systems. */
const messagePeers = ['dbos', 'dbos-tuned', 'raw'];

/** The magic number of an in-memory file system on Linux. */
const tmpfs = 0x01021994;

/** @param {{ version: string, compiles: boolean }} server */
export async function machineFacts(server) {
  const inMemory = (await statfs(tmpdir())).type === tmpfs;
  return [
    `- ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`,
    `- ${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), ` +
      `${Math.round(totalmem() / 2 ** 30)} GB, ${platform()} ${arch()}${loadAverage()}`,
    `- Node ${process.versions.node}, Postgres ${server.version} (its default settings, fsync on, JIT ${server.compiles ? 'on' : 'off'}), ` +
      ['@dbos-inc/dbos-sdk', 'graphile-worker', 'pg-boss'].map((name) => `${name} ${packageVersion(name)}`).join(', '),
    ...(inMemory ? [`- ${tmpdir()} is in memory: fsync costs nothing here, which flatters whoever commits most`] : []),
  ].join('\n');
}

/**
 * @param {import('./options.mjs').Plan} plan
 * @param {import('./trials.mjs').Sample[]} samples
 * @returns {string[]}
 */
export function resultTables(plan, samples) {
  const part = (/** @type {import('./catalogue.mjs').Side} */ uses) => ({
    ...plan,
    workloads: plan.workloads.filter((workload) => workload.uses === uses),
    systems: plan.systems.filter((system) => takesPart(system, { uses })),
  });
  const workflows = part('open');
  const [queues, messages, waiting] = [part('queue'), part('messages'), part('waiting')];
  const [sleepers, failover, recovery] = [part('sleepers'), part('failover'), part('recovery')];
  const [fleet, retention] = [part('fleet'), part('retention')];
  return [
    ...(workflows.workloads.length > 0 ? [workflowTable(workflows, samples), costTable(workflows, samples)] : []),
    ...(queues.workloads.length > 0 ? [aimTable(queues, samples, queuePeers), settings(queues, 'queue')] : []),
    ...(messages.workloads.length > 0
      ? [aimTable(messages, samples, messagePeers), settings(messages, 'messages')]
      : []),
    ...(waiting.workloads.length > 0 ? [aimTable(waiting, samples, [peer])] : []),
    ...(sleepers.workloads.length > 0 ? [aimTable(sleepers, samples, [])] : []),
    ...(failover.workloads.length > 0 ? [aimTable(failover, samples, [])] : []),
    ...(recovery.workloads.length > 0 ? [aimTable(recovery, samples, [peer])] : []),
    ...(retention.workloads.length > 0 ? [aimTable(retention, samples, [])] : []),
    ...(fleet.workloads.length > 0 ? [fleetTable(fleet, samples)] : []),
  ];
}

/**
 * @param {import('./options.mjs').Plan} plan
 * @param {import('./trials.mjs').Sample[]} samples
 */
function workflowTable(plan, samples) {
  const named = namedOnPurpose(plan);
  const lines = resultLines(plan, samples, ({ own, medianOf, system }) =>
    [peer, system.limit ?? '', ...named].map((other) => figure(own / medianOf(other))),
  );
  return table(
    ['work', 'system', 'median', 'min–max', `× ${peer}`, '× raw', ...named.map((name) => `× ${name}`)],
    lines,
  );
}

/** If the command line names a system that takes no part by default, the other systems are compared with it. */
function namedOnPurpose(/** @type {import('./options.mjs').Plan} */ { systems }) {
  return systems.filter((system) => system.onlyByName).map(({ name }) => name);
}

/**
 * The first two columns and a column with the heading `aim` contain text. The other columns contain figures.
 *
 * @param {string[]} head
 * @param {string[]} lines
 */
function table(head, lines) {
  const rule = head.map((name, column) => (column < 2 || name === 'aim' ? '---' : '--:'));
  return [`| ${head.join(' | ')} |`, `|${rule.join('|')}|`, ...lines].join('\n');
}

/**
 * @param {import('./options.mjs').Plan} plan
 * @param {import('./trials.mjs').Sample[]} samples
 * @param {string[]} peers
 */
function aimTable(plan, samples, peers) {
  const others = [...peers, ...namedOnPurpose(plan)];
  const lines = resultLines(plan, samples, ({ own, medianOf, system, row }) => [
    ...others.map((other) => figure(own / medianOf(other))),
    system.name.startsWith('holdfast') ? verdict(row.aims ?? [], own, medianOf) : '',
  ]);
  return table(['work', 'system', 'median', 'min–max', ...others.map((name) => `× ${name}`), 'aim'], lines);
}

/**
 * @param {import('./options.mjs').Plan} plan
 * @param {'queue' | 'messages'} side
 */
function settings({ systems }, side) {
  const lines = systems.map((system) => `- \`${system.name}\`: ${system[side]?.settings}`);
  return [side === 'queue' ? 'Settings on queues:' : 'Settings for messages:', ...lines].join('\n');
}

/**
 * Returns one line for each row and each system that has figures for the row.
 *
 * @typedef {object} Line
 * @property {number} own the median of this system
 * @property {(name: string) => number} medianOf the median of another system in the same row
 * @property {import('./catalogue.mjs').System} system
 * @property {import('./catalogue.mjs').Row} row
 *
 * @param {import('./options.mjs').Plan} plan
 * @param {import('./trials.mjs').Sample[]} samples
 * @param {(line: Line) => string[]} moreCells
 */
function resultLines({ workloads, systems }, samples, moreCells) {
  const lines = [];
  for (const { label: caseLabel, rows } of workloads.flatMap((workload) => workload.cases)) {
    for (const row of rows) {
      const medianOf = (/** @type {string} */ name) => median(figures(samples, caseLabel, name, row.key));
      for (const system of systems) {
        const all = figures(samples, caseLabel, system.name, row.key);
        if (all.length === 0) continue;
        const own = median(all);
        const spread = `${figure(Math.min(...all))}–${figure(Math.max(...all))}`;
        const cells = [row.label, system.name, figure(own), spread, ...moreCells({ own, medianOf, system, row })];
        lines.push(`| ${cells.join(' | ')} |`);
      }
    }
  }
  return lines;
}

/**
 * @param {import('./catalogue.mjs').Aim[]} aims
 * @param {number} own
 * @param {(name: string) => number} medianOf
 */
function verdict(aims, own, medianOf) {
  return aims
    .map(({ than, atMost, atLeast }) => {
      const ratio = than === undefined ? own : own / medianOf(than);
      const met = atMost === undefined ? ratio >= Number(atLeast) : ratio <= atMost;
      const bound = atMost === undefined ? `≥ ${figure(Number(atLeast))}` : `≤ ${figure(atMost)}`;
      const aim = than === undefined ? bound : `${bound} × ${than}`;
      return `${aim}: ${Number.isNaN(ratio) ? 'not measured' : met ? 'met' : 'missed'}`;
    })
    .join(', ');
}

/**
 * @param {import('./options.mjs').Plan} plan
 * @param {import('./trials.mjs').Sample[]} samples
 */
function costTable(plan, samples) {
  const lines = [
    '| per workflow | system | SQL statements | commits | WAL bytes | disk bytes | Node CPU ms | Postgres CPU ms |',
    '|---|---|--:|--:|--:|--:|--:|--:|',
  ];
  for (const { label } of plan.workloads.flatMap((workload) => workload.cases)) {
    for (const { name } of plan.systems) {
      const own = samples.filter((sample) => sample.system === name && sample.caseLabel === label);
      const cell = (/** @type {keyof import('./trials.mjs').PerWorkflow} */ key) =>
        figure(median(own.flatMap(({ perWorkflow }) => perWorkflow?.[key] ?? [])));
      const keys = /** @type {const} */ (['statements', 'commits', 'walBytes', 'diskBytes', 'nodeMs', 'postgresMs']);
      lines.push(`| ${label} | ${name} | ${keys.map(cell).join(' | ')} |`);
    }
  }
  return lines.join('\n');
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
