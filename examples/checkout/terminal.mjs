/** How the demo looks. Colours and pauses are for a person at a terminal: without one, or with NO_COLOR, neither. */
const forAPerson = process.stdout.isTTY === true && !process.env.NO_COLOR;

const colour = (code) => (text) => (forAPerson ? `\u001b[${code}m${text}\u001b[0m` : text);
export const bold = colour('1');
export const dim = colour('2');
export const red = colour('31');
export const green = colour('32');

export function say(text = '') {
  process.stdout.write(text === '' ? '\n' : ` ${text}\n`);
}

/** Long enough to read a line. */
export function pause(ms) {
  return forAPerson ? new Promise((resolve) => setTimeout(resolve, ms)) : Promise.resolve();
}

/** Lines with the time since the first one and the process that they are about. */
export function createTimeline() {
  let startedAt;
  return {
    note(pid, text, at = Date.now()) {
      startedAt ??= at;
      const seconds = ((at - startedAt) / 1000).toFixed(2);
      say(`${dim(`${seconds.padStart(6)} s`)}  ${String(pid).padStart(7)}  ${text}`);
    },
  };
}
