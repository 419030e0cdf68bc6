import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { sqliteDrivers } from '../../../../test-support/sqlite.mjs';
import { type Client, connect, queue } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { countersTable } from '../support/datasources.js';
import { tamper } from '../support/faults.js';
import { report, requireBuild } from './child-process.js';
import { Worker } from './queue-fleet.js';

const seed = process.env.HOLDFAST_FAULT_SEED ?? String(Date.now() % 1_000_000);
/**
 * HOLDFAST_TRANSACTIONS=2000 for the full test: the number of steps through the plainest library, on both databases.
 */
const most = Number(process.env.HOLDFAST_TRANSACTIONS ?? 100);
const others = most < 2_000 ? 15 : 50;
/** The expected number of processes that end themselves right after a commit. */
const expectedDeaths = most < 2_000 ? 4 : 40;
const workers = 4;
const stepsOfJob = 5;
const minutes = 60_000;

const libraries = {
  postgres: ['pg', 'postgres', 'knex', 'kysely', 'drizzle'],
  // A process may contain only one copy of SQLite, and the other libraries open files with better-sqlite3.
  sqlite: sqliteDrivers[0] === 'node:sqlite' ? ['node:sqlite'] : ['better-sqlite3', 'knex', 'kysely', 'drizzle'],
};

describeBackends('transactions in processes that are killed at random', (backend) => {
  beforeAll(requireBuild);

  it(
    'take effect exactly once, through every library',
    async () => {
      const started = performance.now();
      const { database, places, client } = await open(backend);
      const plan = planOf(backend, Object.keys(places));
      const fleet = new Fleet(
        { database, places, deaths: expectedDeaths / sum(plan.values()) },
        new SeededRandom(`${backend.name} ${seed}`),
      );
      onTestFinished(() => fleet.killAll());
      await fleet.start();
      const jobs = await enqueue(client, plan);
      let done = 0;
      const killing = fleet.killUntil(() => done > 0.9 * jobs);
      while (done < jobs) {
        const [row] = await tamper(database, "select count(*) as n from workflow_status where status = 'SUCCESS'");
        done = Number(row?.n);
        await delay(100);
        if (performance.now() - started > 10 * minutes) throw new Error(`${done} of ${jobs}. Seed ${seed}`);
      }
      await killing;
      await fleet.stop();
      await check(backend, places, plan, fleet, performance.now() - started);
    },
    12 * minutes,
  );
});

type Places = Readonly<Record<string, string>>;
/** Number of steps by library and place. */
type Plan = ReadonlyMap<string, number>;

async function open(backend: Backend): Promise<{ database: string; places: Places; client: Client }> {
  const database = await backend.newDatabase();
  const apart = await backend.emptyDatabase();
  const places: Places = backend.name === 'postgres' ? { apart, same: database } : { apart };
  for (const url of Object.values(places)) {
    await tamper(url, backend.name === 'sqlite' ? countersTable : countersTable.replace('exists ', 'exists public.'));
  }
  if (backend.name === 'sqlite') await tamper(apart, 'pragma journal_mode = wal');
  const client = await connect({ name: 'fleet', database, logger: silent });
  onTestFinished(() => client.close());
  await client.queues.register(queue('jobs', { workerConcurrency: 8 }));
  return { database, places, client };
}

function planOf(backend: Backend, places: readonly string[]): Plan {
  const [first] = libraries[backend.name];
  const all = libraries[backend.name].flatMap((library) => places.map((place) => ({ library, place })));
  return new Map(all.map(({ library, place }) => [`${library} in ${place}`, library === first ? most : others]));
}

function sum(numbers: Iterable<number>): number {
  return [...numbers].reduce((total, each) => total + each, 0);
}

async function enqueue(client: Client, plan: Plan): Promise<number> {
  const inputs = [...plan].flatMap(([key, steps]) =>
    Array.from({ length: steps / stepsOfJob }, () => [key, stepsOfJob]),
  );
  await client.startAll('job', { queue: 'jobs' }, inputs, (_, i) => ({ id: `job-${i}` }));
  return inputs.length;
}

async function check(backend: Backend, places: Places, plan: Plan, fleet: Fleet, ms: number): Promise<void> {
  const totals: Record<string, number> = {};
  const twice: unknown[] = [];
  for (const url of Object.values(places)) {
    const table = backend.name === 'sqlite' ? 'counters' : 'public.counters';
    const rows = await tamper(url, `select id, n from ${table}`);
    for (const { id, n } of rows) {
      if (plan.has(String(id))) totals[String(id)] = Number(n);
      else if (Number(n) !== 1) twice.push(id);
    }
  }
  for (const [key, steps] of plan) {
    report(`transactions (${backend.name}): ${key}: ${totals[key]} of ${steps}`);
  }
  const seconds = (ms / 1000).toFixed(1);
  const kinds = `${fleet.kills} kills, ${fleet.deaths} deaths right after a commit`;
  report(`transactions (${backend.name}): ${kinds}, ${seconds} s; HOLDFAST_FAULT_SEED=${seed}`);
  // A run in which no fault landed proves nothing.
  expect(fleet.kills + fleet.deaths).toBeGreaterThan(0);
  expect(twice).toEqual([]);
  expect(totals).toEqual(Object.fromEntries(plan));
}

/** Workers, some of which are killed and some of which end themselves. Each of them is replaced. */
class Fleet {
  kills = 0;
  deaths = 0;
  private stopping = false;
  private readonly living = new Set<Worker>();
  private readonly spawning = new Set<Promise<void>>();

  constructor(
    private readonly options: object,
    private readonly random: SeededRandom,
  ) {}

  async start(): Promise<void> {
    await Promise.all(Array.from({ length: workers }, () => this.spawn()));
  }

  async killUntil(done: () => boolean): Promise<void> {
    while (!done()) {
      await delay(200 + this.random.number() * 600);
      const victim = [...this.living][Math.floor(this.random.number() * this.living.size)];
      if (!victim || done()) continue;
      this.living.delete(victim);
      await victim.kill();
      this.kills++;
      await this.spawn();
    }
  }

  async stop(): Promise<void> {
    await this.end((worker) => worker.stop());
  }

  async killAll(): Promise<void> {
    await this.end((worker) => worker.kill());
  }

  /** Ends all workers, including replacements that are still starting. */
  private async end(how: (worker: Worker) => Promise<void>): Promise<void> {
    this.stopping = true;
    await Promise.all(this.spawning);
    await Promise.all([...this.living].map(how));
  }

  private spawn(): Promise<void> {
    const spawning = Worker.start(this.options, 'transaction-worker.mjs').then((worker) => {
      this.living.add(worker);
      void worker.ended.then(() => this.replace(worker));
    });
    this.spawning.add(spawning);
    return spawning.finally(() => this.spawning.delete(spawning));
  }

  private async replace(worker: Worker): Promise<void> {
    if (this.stopping || !this.living.delete(worker)) return;
    this.deaths++;
    await this.spawn();
  }
}
