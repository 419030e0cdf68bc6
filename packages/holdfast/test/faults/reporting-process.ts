import { type ChildProcess, fork } from 'node:child_process';
import { fixturePath } from './child-process.js';

/** A message that a process reports. */
export interface Message {
  readonly event: string;
  readonly workflowId?: string;
  readonly workflowIds?: string[];
  readonly value?: string[];
}

/** A fixture that runs in its own process, takes commands, and reports what happens in it. */
export class TellingProcess {
  private readonly inbox: Message[] = [];
  private wake = (): void => {};
  private complaints = '';

  /** Resolves when the process is ready. */
  static async start(fixture: string, options: object): Promise<TellingProcess> {
    const child = fork(fixturePath(fixture), [JSON.stringify(options)], { execArgv: [], stdio: 'pipe' });
    const telling = new TellingProcess(child);
    await telling.next('ready');
    return telling;
  }

  private constructor(readonly process: ChildProcess) {
    process.on('message', (message) => {
      this.inbox.push(message as Message);
      this.wake();
    });
    process.stderr?.on('data', (chunk: Buffer) => {
      this.complaints += chunk;
    });
    process.on('exit', () => this.wake());
  }

  send(message: object): void {
    this.process.send(message);
  }

  unread(): readonly Message[] {
    return this.inbox;
  }

  /** Resolves with the next message of this event. Earlier messages are skipped. */
  async next(event: string): Promise<Message> {
    for (;;) {
      const message = this.inbox.shift();
      if (message?.event === event) return message;
      if (message) continue;
      if (this.process.exitCode !== null) throw new Error(`The process ended: ${this.complaints}`);
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }

  async kill(): Promise<void> {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill('SIGKILL');
    await ended;
  }
}
