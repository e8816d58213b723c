/**
 * The lines of a simulation. A line carries messages one way, in order; different lines have delays of their own, so
 * that what goes by two of them arrives in any order. Everything that arrives is a point at which something may go wrong.
 */
import type { Random } from '../../../../swarm/base.ts';
import type { Agenda } from './agenda.ts';
import type { Machine, Process } from './machine.ts';
import type { Pace } from './pace.ts';

const LEAST_DELAY_MS = 2;
const USUAL_DELAY_MS = 30;
/** So many messages of a hundred are late, by up to so much. */
const LATE_PERCENT = 2;
const LATE_MS = 400;

export class Network {
  readonly agenda: Agenda;
  readonly #random: Random;
  /** How links take; null: as chance has it. */
  pace: Pick<Pace, 'link'> | null = null;
  /** Of the lines that several share, by name: until when each is busy. */
  readonly ways = new Map<string, { freeMs: number }>();
  /** Told of what is given to such a line. */
  onLine: (line: string, message: ArrayBuffer) => void = () => {};
  /** Told of what arrives, right before it does. */
  onArrival: (what: string) => void = () => {};

  constructor(agenda: Agenda, random: Random) {
    this.agenda = agenda;
    this.#random = random;
  }

  /** Of what goes over no link, where links have a pace: none. */
  delayMs(): number {
    if (this.pace) return 0;
    const lateMs = this.#random() * 100 < LATE_PERCENT ? LATE_MS * this.#random() : 0;
    return LEAST_DELAY_MS + USUAL_DELAY_MS * this.#random() + lateMs;
  }

  line(from: Machine, to: Process): Line {
    return new Line(this, from, to);
  }
}

export class Line {
  readonly #network: Network;
  readonly #from: Machine;
  readonly #to: Process;
  #lastMs = 0;

  constructor(network: Network, from: Machine, to: Process) {
    this.#network = network;
    this.#from = from;
    this.#to = to;
  }

  /** `afterMs`: the sender is at it until then. */
  carry(what: string, arrive: () => void, afterMs = 0): void {
    const { agenda } = this.#network;
    const freeMs = Math.max(agenda.nowMs + afterMs, this.#from.cutUntilMs);
    this.#lastMs = Math.max(this.#lastMs, freeMs + this.#network.delayMs());
    agenda.after(this.#lastMs - agenda.nowMs, () => this.#arrive(what, arrive));
  }

  #arrive(what: string, arrive: () => void): void {
    const { agenda } = this.#network;
    const openMs = Math.max(this.#from.cutUntilMs, this.#to.machine.cutUntilMs);
    if (agenda.nowMs < openMs) {
      // Sent again when there is a way; so is what came after it.
      agenda.after(openMs - agenda.nowMs, () => this.#arrive(what, arrive));
      return;
    }
    this.#to.after(0, () => {
      this.#network.onArrival(what);
      arrive();
    });
  }
}
