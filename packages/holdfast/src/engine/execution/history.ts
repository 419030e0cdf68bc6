import type { StepRecord } from '../../storage/contract/storage.js';

/** The steps that earlier executions recorded, and the steps that the code calls this time. */
export class History {
  private readonly byNumber: Map<number, StepRecord>;
  private readonly highest: number;
  private readonly requested: string[] = [];

  constructor(readonly steps: readonly StepRecord[]) {
    this.byNumber = new Map(steps.map((step) => [step.stepNumber, step]));
    this.highest = steps.reduce((highest, step) => Math.max(highest, step.stepNumber), -1);
  }

  /**
   * Notes that the code calls a step, and returns its record, if there is one. `matches` is false if the record belongs
   * to a step of another name.
   */
  request(stepNumber: number, name: string): { readonly step: StepRecord | undefined; readonly matches: boolean } {
    this.requested[stepNumber] = name;
    const step = this.byNumber.get(stepNumber);
    return { step, matches: step === undefined || step.name === name };
  }

  /** Returns whether the code has called the step. */
  wasRequested(stepNumber: number): boolean {
    return this.requested[stepNumber] !== undefined;
  }

  /** Returns the record of a step. Does not count as a call by the code. */
  peek(stepNumber: number): StepRecord | undefined {
    return this.byNumber.get(stepNumber);
  }

  /** Returns whether this step or a later step is recorded. */
  reaches(stepNumber: number): boolean {
    return this.highest >= stepNumber;
  }

  /** The first empty place in the completion order that has recorded places after it. */
  get missing(): number | undefined {
    const recordedPlaces = new Set(this.steps.flatMap(({ completionSeq }) => completionSeq ?? []));
    let place = 0;
    while (recordedPlaces.delete(place)) place++;
    return recordedPlaces.size === 0 ? undefined : place;
  }

  /** Shows the recorded steps beside the steps that the code calls, with a mark at the first difference. */
  diff(): string {
    const lines = ['  step  recorded                        called now'];
    const last = Math.max(this.highest, this.requested.length - 1);
    const differs = (n: number): boolean => {
      const recorded = this.byNumber.get(n)?.name;
      return recorded !== undefined && recorded !== this.requested[n];
    };
    const first = Array.from({ length: last + 1 }, (_, n) => n).find(differs) ?? last;
    for (let n = Math.max(0, first - 3); n <= Math.min(last, first + 3); n++) {
      const recorded = this.byNumber.get(n)?.name ?? '(nothing)';
      const requested = this.requested[n] ?? '(nothing)';
      lines.push(`${n === first ? '>' : ' '} ${String(n).padStart(4)}  ${recorded.padEnd(30)}  ${requested}`);
    }
    return lines.join('\n');
  }
}
