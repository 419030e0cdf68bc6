import { closedError } from '../model/errors.js';

/**
 * - `open`: starts are accepted.
 * - `draining`: no new starts from outside, but running workflows continue.
 * - `closed`: nothing runs any more.
 */
type State = 'open' | 'draining' | 'closed';

/** The state of one app between its launch and the end of its shutdown. */
export class Lifecycle {
  private state: State = 'open';

  get isOpen(): boolean {
    return this.state === 'open';
  }

  get isClosed(): boolean {
    return this.state === 'closed';
  }

  /** Throws a typed error if the app does not accept starts any more. */
  checkOpen(): void {
    if (!this.isOpen) throw closedError();
  }

  refuseStarts(): void {
    if (this.state === 'open') this.state = 'draining';
  }

  close(): void {
    this.state = 'closed';
  }
}
