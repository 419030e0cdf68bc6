/** Holdfast's members of a fleet, through its public API and with its defaults. */
import { library } from '../library.mjs';

/** The number of the last message of a mailbox. */
const end = -1;

/** @type {import('./trial.mjs').FleetAdapter} */
export const holdfastFleet = { open: (post) => openHoldfast(post, post.url) };

/**
 * @param {import('./trial.mjs').Post} post
 * @param {import('holdfast').LaunchOptions['database']} database
 * @returns {Promise<import('./trial.mjs').OpenMember>}
 */
export async function openHoldfast({ role, body }, database) {
  const { launch, queue, topic, workflow } = await library();
  const mail = unlimited(topic);
  const noop = workflow('noop', async (/** @type {number} */ input) => body(input));
  const readMail = workflow('readMail', async () => {
    for (let expected = 0; ; expected++) {
      const number = await mail.receive({ timeout: '1h' });
      if (number === end) return expected;
      if (number !== expected) throw new Error(`Message ${expected} was due, but message ${number} was received.`);
    }
  });
  const queues = {
    drain: queue('drain'),
    idle: queue('idle'),
    limited: queue('limited', { concurrency: 10 }),
    mailboxes: queue('mailboxes'),
  };
  const app = await launch({
    name: 'bench',
    database,
    version: 'bench',
    workflows: [noop, readMail],
    queues: Object.values(queues),
    listen: role === 'worker' ? Object.keys(queues) : [],
    logger: { debug() {}, info() {}, warn: console.warn, error: console.error },
  });
  // A bystander has a workflow that waits for a message, as most processes of a fleet have.
  if (role === 'bystander') await readMail.start();
  return {
    pause: (name) => app.queues.pause(name),
    resume: (name) => app.queues.resume(name),
    enqueue: (name, input) => noop.with({ queue: queues[name] }).start(input),
    enqueueAll: (name, inputs) => noop.with({ queue: queues[name] }).startAll(inputs.map((input) => [input])),
    openMailbox: (id) => readMail.with({ id, queue: queues.mailboxes }).start(),
    send: (id, number) => mail.send(id, number),
    async readMailbox(id) {
      await mail.send(id, end);
      return /** @type {number} */ (await app.workflows.handle(id).result());
    },
    close: () => app.shutdown(),
  };
}

/** One sender fills an inbox of the default size during a trial. An older build has no limit, and no option for it. */
function unlimited(/** @type {typeof import('holdfast').topic} */ topic) {
  try {
    return topic('mail', { maxWaiting: Number.POSITIVE_INFINITY });
  } catch {
    return topic('mail');
  }
}
