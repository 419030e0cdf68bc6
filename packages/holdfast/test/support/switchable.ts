import { run } from '../../src/index.js';

/** Steps that note that they ran, and that fail as long as the test marks them as broken. */
export function switchable(ran: string[]) {
  const broken = new Set<string>();
  const work = (name: string) =>
    run(name, () => {
      ran.push(name);
      if (broken.has(name)) throw new Error(`no ${name}`);
      return name;
    });
  return { broken, work };
}
