import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { Entry, NewEntry } from '../faults/ledger.js';

/**
 * The ledger of the soak: like that of the fault tests (../faults/ledger.ts), but a file of lines. Every process
 * appends each line with a single write, so the order in the file is the order in which things happened. No process
 * holds a lock in between. In SQLite a process that is stopped in the middle of a transaction would block all other
 * writers.
 */
export class FileLedger {
  private readonly file: number;

  constructor(readonly path: string) {
    this.file = openSync(path, 'a');
  }

  append({ kind, workflowId, stepNumber = null, by, detail = null }: NewEntry): void {
    writeSync(this.file, `${JSON.stringify([kind, workflowId, stepNumber, by, detail])}\n`);
  }

  entries(): Entry[] {
    return parseEntries(readFileSync(this.path, 'utf8'));
  }

  close(): void {
    closeSync(this.file);
  }
}

type Line = [kind: string, workflowId: string, stepNumber: number | null, by: string, detail: string | null];

function parseEntries(text: string): Entry[] {
  const lines = text.split('\n').filter((line) => line !== '');
  return lines.map((line, seq) => {
    const [kind, workflowId, stepNumber, by, detail] = JSON.parse(line) as Line;
    return { seq, kind, workflowId, stepNumber, by, detail };
  });
}
