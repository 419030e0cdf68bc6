import { runCommand } from '../../src/cli/program.js';

/** Runs the command of the package in this process. */
export async function command(...args: readonly string[]) {
  let [out, err] = ['', ''];
  const code = await runCommand(args, {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
  });
  return { code, out, err };
}
