import type { StepRecord } from '../../storage/contract/storage.js';

/** What earlier executions of a workflow left on record, and what the code asks for this time. */
export class History {
  private readonly byNumber: Map<number, StepRecord>;
  private readonly highest: number;
  private readonly requested: string[] = [];

  constructor(readonly steps: readonly StepRecord[]) {
    this.byNumber = new Map(steps.map((step) => [step.stepNumber, step]));
    this.highest = steps.reduce((highest, step) => Math.max(highest, step.stepNumber), -1);
  }

  /** The record for a step, if there is one. `matches` is false when it belongs to a step of another name. */
  request(stepNumber: number, name: string): { readonly step: StepRecord | undefined; readonly matches: boolean } {
    this.requested[stepNumber] = name;
    const step = this.byNumber.get(stepNumber);
    return { step, matches: step === undefined || step.name === name };
  }

  wasRequested(stepNumber: number): boolean {
    return this.requested[stepNumber] !== undefined;
  }

  peek(stepNumber: number): StepRecord | undefined {
    return this.byNumber.get(stepNumber);
  }

  /** Whether anything is on record from this step on. */
  reaches(stepNumber: number): boolean {
    return this.highest >= stepNumber;
  }

  /** The first place in the order of completion that is empty although there are later ones. */
  get missing(): number | undefined {
    const places = new Set(this.steps.flatMap(({ completionSeq }) => completionSeq ?? []));
    let place = 0;
    while (places.delete(place)) place++;
    return places.size === 0 ? undefined : place;
  }

  /** Recorded steps beside requested ones, the first difference marked. */
  diff(): string {
    const lines = ['  step  on record                       asked for now'];
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
