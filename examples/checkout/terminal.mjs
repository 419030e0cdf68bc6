/** Prints the output of the demo. Without a terminal, or with NO_COLOR, there are no colors and no pauses. */
const forAPerson = process.stdout.isTTY === true && !process.env.NO_COLOR;

const color = (code) => (text) => (forAPerson ? `\u001b[${code}m${text}\u001b[0m` : text);
export const bold = color('1');
export const dim = color('2');
export const red = color('31');
export const green = color('32');

export function say(text = '') {
  process.stdout.write(text === '' ? '\n' : ` ${text}\n`);
}

/** Gives a person the time to read a line. */
export function pause(ms) {
  return forAPerson ? new Promise((resolve) => setTimeout(resolve, ms)) : Promise.resolve();
}

/** Prints lines with the time since the first line and the process that each line is about. */
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
