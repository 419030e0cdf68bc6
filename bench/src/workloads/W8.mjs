/** W8: how long a message between workflows of two processes takes. */
import { measureExchanges } from '../messages/exchange.mjs';

const what = 'W8 two processes';

/** @type {import('../catalogue.mjs').Aim[]} */
const aims = [{ than: 'dbos', atMost: 0.5 }];

/** @type {import('../catalogue.mjs').WorkloadDefinition} */
export default {
  title: 'a message to a workflow in another process, and its answer by an event, one exchange at a time',
  uses: 'messages',
  cases: [
    {
      label: what,
      rows: [
        { key: 'bothP50', label: `${what}, round trip: p50 ms`, aims },
        { key: 'bothP99', label: `${what}, round trip: p99 ms` },
        { key: 'sendP50', label: `${what}, its first half, send to receive: p50 ms` },
        { key: 'sendP99', label: `${what}, its first half, send to receive: p99 ms` },
        { key: 'setP50', label: `${what}, its second half, set to get: p50 ms` },
        { key: 'setP99', label: `${what}, its second half, set to get: p99 ms` },
      ],
      measure: (system, { quick }) => measureExchanges(system, quick ? 30 : 400),
    },
  ],
};
