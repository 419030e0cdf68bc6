#!/usr/bin/env node
import { runCommand } from './program.js';

// A reader such as `head` may close the pipe before everything is printed, which is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

const terminal = {
  out: (text: string): void => void process.stdout.write(text),
  err: (text: string): void => void process.stderr.write(text),
};

// Not `process.exit()`, which would cut off what a pipe has not taken yet.
process.exitCode = await runCommand(process.argv.slice(2), terminal);
