import type { After, StepRecord } from '../../storage/contract/steps.js';

/**
 * A result that is known to be committed. `at` is the number of the statement that committed it, counted in the order
 * of confirmation (confirm-writes.ts).
 */
interface CommittedResult {
  readonly step: number;
  readonly seq: number;
  readonly at: number;
}

/** A submitted row. `since` is the number of statements that had been confirmed when the row was submitted. */
export interface Submitted {
  readonly stepNumber: number;
  readonly completionSeq: number | null;
  readonly since?: number;
}

const none: readonly CommittedResult[] = [];
const nothing: After = { afterStep: null, afterSeq: null, afterAlso: null };

/**
 * The last results of an execution that are known to be committed. The next row of the execution names them as its
 * predecessors. A database that has lost one of them refuses the row.
 *
 * **Invariant:** a database that has all named results has all results of the execution that are known to be committed.
 * A result is left out only if a named result implies it: the named result was submitted after the left-out result was
 * confirmed, or the same statement committed both. Usually one result is named; after concurrent statements, one result
 * of each statement.
 *
 * Results of former owners need no name: the claim that wrote the owner token came after them, and no row is written
 * without that token.
 */
export class Frontier {
  private committed: readonly CommittedResult[] = none;
  private predecessors: After = nothing;

  /**
   * Starts from the last recorded result of the history. An execution can be new although its owner token is unchanged;
   * the last recorded result is then its closest known predecessor.
   */
  static of(recorded: readonly StepRecord[] | undefined): Frontier {
    const frontier = new Frontier();
    let last: StepRecord | undefined;
    for (const step of recorded ?? []) if ((step.completionSeq ?? -1) > (last?.completionSeq ?? -1)) last = step;
    if (last) frontier.confirm(last, 0);
    return frontier;
  }

  /** The predecessors of a row that is submitted now. */
  get after(): After {
    return this.predecessors;
  }

  /** The predecessors of a row that records the start of a child: the results, and the row of the child. */
  afterChild(child: string): After {
    const also = this.predecessors.afterAlso === null ? [] : JSON.parse(this.predecessors.afterAlso);
    return { ...this.predecessors, afterAlso: JSON.stringify([...also, { child }]) };
  }

  /** The named results, for a check whether the database still has them. */
  get results(): readonly { readonly step: number; readonly seq: number }[] {
    return this.committed;
  }

  /** Notes that a row is committed, by the statement that was confirmed as number `at`. */
  confirm({ stepNumber: step, completionSeq: seq, since = 0 }: Submitted, at: number): void {
    if (seq === null) return;
    const [first, second] = this.committed;
    if (second !== undefined || (first !== undefined && first.at > since)) {
      const remaining = this.committed.filter((each) => each.at > since);
      if (remaining.some((each) => each.at === at)) return;
      this.committed = [...remaining, { step, seq, at }];
    } else this.committed = [{ step, seq, at }];
    const [head, ...others] = this.committed as [CommittedResult, ...CommittedResult[]];
    const also = others.map((each) => ({ step: each.step, seq: each.seq }));
    this.predecessors = {
      afterStep: head.step,
      afterSeq: head.seq,
      afterAlso: also.length === 0 ? null : JSON.stringify(also),
    };
  }
}
