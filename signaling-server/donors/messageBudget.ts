/** How many messages a donor may send unasked: a bucket that fills with time. Signaling comes in bursts. */
interface Rate {
  readonly burst: number;
  readonly perSecond: number;
}

/** Of one that no plan was ever sent to: it opens a link to be measured now and then, and that is all. */
const SPARE: Rate = { burst: 200, perSecond: 50 };
const MEMBER: Rate = { burst: 1_000, perSecond: 500 };
/** A relayed frame counts as this part of a message, which bounds their number; the relay's windows bound their bytes. */
export const FRAME_COST = 0.05;

export class MessageBudget {
  #rate = SPARE;
  #allowance = SPARE.burst;
  /** When its allowance was last counted. */
  #countedMs: number;

  constructor(nowMs: number) {
    this.#countedMs = nowMs;
  }

  get perSecond(): number {
    return this.#rate.perSecond;
  }

  /** A plan was sent to it. */
  becomeMember(): void {
    if (this.#rate === MEMBER) return;
    this.#rate = MEMBER;
    this.#allowance = MEMBER.burst;
  }

  /** It was asked for one: a donor is never refused for being fast. */
  asked(): void {
    this.#allowance = Math.min(this.#rate.burst, this.#allowance + 1);
  }

  may(cost: number, nowMs: number): boolean {
    const { burst, perSecond } = this.#rate;
    const earned = ((nowMs - this.#countedMs) / 1_000) * perSecond;
    this.#allowance = Math.min(burst, this.#allowance + earned) - cost;
    this.#countedMs = nowMs;
    return this.#allowance >= 0;
  }
}
