/** No limit in effect. For a limit that is not a constant, the planner expects a tenth of the rows. */
const noLimit = 'limit (select null::bigint)';

/** See `Dialect.few`. */
export const few = (select: string): string =>
  ['tenth', 'hundredth', 'thousandth'].reduce(
    (query, part) => `select * from (${query} ${noLimit}) ${part}`,
    `select * from (${select}) whole`,
  );
