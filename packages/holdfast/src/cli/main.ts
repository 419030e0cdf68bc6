#!/usr/bin/env node
import { runCommand } from './program.js';

// A reader such as `head` may close the pipe before the whole output is written. This is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

const terminal = {
  out: (text: string): void => void process.stdout.write(text),
  err: (text: string): void => void process.stderr.write(text),
};

// The code does not call `process.exit()`, which would discard output that the pipe has not accepted yet.
process.exitCode = await runCommand(process.argv.slice(2), terminal);
