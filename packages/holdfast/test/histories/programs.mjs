// The programs whose histories are kept. **Invariant:** none of them ever changes: the code that made a record of a
// past release also replays it. To cover more, add programs, and record them with the next release (record.mjs).
// `library` is the package of the release that records or replays. Each step that runs is reported to `ran`. The step
// named "half" waits for `half()`, which never resolves while a half history is recorded.

/** @param {any} library @param {{ ran(step: string): void, half(): unknown }} told */
export function historicPrograms(library, told) {
  const kit = { ...library, ...steps(library, told) };
  return { ...outcomes(kit), ...waits(kit), ...decisions(kit), ...talks(kit) };
}

function steps({ run }, told) {
  return {
    step: (name, value) =>
      run(name, async () => {
        told.ran(name);
        return typeof value === 'function' ? value() : value;
      }),
    half: () =>
      run('half', async () => {
        told.ran('half');
        await told.half();
        return 'half';
      }),
    fail: (message) => () => {
      throw new RangeError(message);
    },
    message: (error) => `${error.name}: ${error.message}`,
  };
}

function outcomes({ workflow, step, half, fail, message }) {
  const values = workflow('values', async (order) => {
    const all = [order, await step('text', 'Grüße \u{1F44B}'), await step('nothing'), await step('null', null)];
    all.push(await step('date', new Date(86_400_000)), await step('map', new Map([['a', new Set([1, 2n])]])));
    all.push(await step('fails', fail('no such card')).catch(message), await half());
    all.push(await step('bytes', new Uint8Array([1, 2, 3])), await step('fails again', fail('at last')).catch(message));
    return all;
  });

  const branches = workflow('branches', async () => {
    const order = [];
    const chain = async (name, ms) => {
      for (let n = 0; n < 2; n++) {
        await step(`${name}${n}`, () => new Promise((resolve) => setTimeout(resolve, ms)));
        order.push(`${name}${n}`);
      }
      return name;
    };
    const all = await Promise.all([chain('slow', 50), chain('fast', 2), chain('mean', 10)]);
    const winner = await Promise.race([chain('late', 50), chain('early', 2)]);
    const inOrder = [...order];
    const settled = await Promise.allSettled([step('lost', fail('lost')), half()]);
    return { inOrder, all, winner, settled: settled.map((each) => each.value ?? message(each.reason)) };
  });

  return { values, branches };
}

function waits({ workflow, now, sleep, step, half }) {
  const sleeper = workflow('sleeper', async () => {
    const began = now().getTime();
    await sleep('1h');
    const first = await step('first', 1);
    const pause = sleep('2h');
    const second = await half();
    await pause;
    return { first, second, slept: now().getTime() - began >= 3 * 3_600_000 };
  });

  const child = workflow('child', async (name) => `${name} of ${await step(`in the child ${name}`, name)}`);
  const parent = workflow('parent', async () => {
    const names = [await child('one'), await half()];
    const handle = await child.with({ id: 'named child' }).start('two');
    return [...names, await handle.result(), await step('after', 'after')];
  });

  return { sleeper, child, parent };
}

function decisions({ workflow, patch, random, uuid, step, half }) {
  const chance = workflow('chance', async () => {
    const drawn = [random(), uuid(), await step('a', 'a'), random(), uuid()];
    return [...drawn, await half(), random(), uuid()];
  });

  const patched = workflow('patched', async () => {
    const isNew = await patch('wrap it');
    return [isNew, isNew ? await step('wrap', 'wrapped') : 'bare', await half(), await patch('second')];
  });

  return { chance, patched };
}

function talks({ workflow, event, stream, topic, half }) {
  const [question, progress, diary] = [topic('question'), event('progress'), stream('diary')];
  const talker = workflow('talker', async () => {
    await progress.set(1);
    const first = await question.receive();
    await diary.write(`asked ${first}`);
    const nothing = await question.receive({ timeout: '1m' });
    await half();
    await progress.set(2);
    await diary.write('done');
    return [first, nothing];
  });

  return { talker };
}

/** Messages sent from outside while a program is recorded, by recipient. */
export const messages = { talker: { topic: 'question', value: 'why' } };

/** The workflows that are started by name. The other workflows are their children. */
export const recorded = ['values', 'branches', 'sleeper', 'parent', 'chance', 'patched', 'talker'];
