import type { After, StepRecord } from '../../storage/contract/steps.js';

/** A result that is known to be committed, and the confirmed statement (counted by checkpoints.ts) that committed it. */
interface Landed {
  readonly step: number;
  readonly seq: number;
  readonly at: number;
}

/** A row on its way: how many statements had been confirmed when it was submitted. */
export interface Submitted {
  readonly stepNumber: number;
  readonly completionSeq: number | null;
  readonly since?: number;
}

const none: readonly Landed[] = [];
const nothing: After = { afterStep: null, afterSeq: null, afterAlso: null };

/**
 * The last results of an execution that are known to be committed: what its next row names as its predecessors, so that it
 * is refused where the database has lost one of them.
 *
 * **Invariant:** a database that has all of these has all results of the execution that are known to be committed. A result
 * is left out only for one that was submitted after its own confirmation, and so committed after it, or that the same
 * statement committed. As a rule one is left; after concurrent statements there is one for each of them.
 *
 * What former owners recorded need not be named: the claim that wrote the owner token came after it, and no row is written
 * without that token.
 */
export class Frontier {
  private landed: readonly Landed[] = none;
  private named: After = nothing;

  /** Also where the token stayed and the execution is new: by the last of its rows, the nearest that is known. */
  static of(recorded: readonly StepRecord[] | undefined): Frontier {
    const frontier = new Frontier();
    let last: StepRecord | undefined;
    for (const step of recorded ?? []) if ((step.completionSeq ?? -1) > (last?.completionSeq ?? -1)) last = step;
    if (last) frontier.confirm(last, 0);
    return frontier;
  }

  /** What a row that is submitted now comes after. */
  get after(): After {
    return this.named;
  }

  /** The same, and the child whose start the row records. */
  afterChild(child: string): After {
    const also = this.named.afterAlso === null ? [] : JSON.parse(this.named.afterAlso);
    return { ...this.named, afterAlso: JSON.stringify([...also, { child }]) };
  }

  /** The results named, for whoever looks whether they are still on record. */
  get results(): readonly { readonly step: number; readonly seq: number }[] {
    return this.landed;
  }

  /** A row is known to be committed, by the statement that was confirmed as number `at`. */
  confirm({ stepNumber: step, completionSeq: seq, since = 0 }: Submitted, at: number): void {
    if (seq === null) return;
    const [first, second] = this.landed;
    if (second !== undefined || (first !== undefined && first.at > since)) {
      const left = this.landed.filter((each) => each.at > since);
      if (left.some((each) => each.at === at)) return;
      this.landed = [...left, { step, seq, at }];
    } else this.landed = [{ step, seq, at }];
    const [head, ...others] = this.landed as [Landed, ...Landed[]];
    const also = others.map((each) => ({ step: each.step, seq: each.seq }));
    this.named = {
      afterStep: head.step,
      afterSeq: head.seq,
      afterAlso: also.length === 0 ? null : JSON.stringify(also),
    };
  }
}
