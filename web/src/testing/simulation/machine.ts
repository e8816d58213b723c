/**
 * A computer of a simulation, and the processes on it. Whatever a process does it does by `after`, so that a computer that
 * stands still, is cut off or dies needs no word in the code that runs there.
 */
import type { Agenda } from './agenda.ts';

/** Owned by who runs it; what it had put down is forgotten when it ends. */
export class Process {
  isAlive = true;
  readonly machine: Machine;

  constructor(machine: Machine) {
    this.machine = machine;
  }

  /** By its own clock, which may jump. */
  now = (): number => this.machine.agenda.nowMs + this.machine.aheadMs;

  after(ms: number, act: () => void): void {
    this.machine.agenda.after(ms, () => this.#now(act));
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  end(): void {
    this.isAlive = false;
  }

  /** A computer that stands still does everything when it goes on, in the old order. */
  #now(act: () => void): void {
    const { agenda, frozenUntilMs } = this.machine;
    if (!this.isAlive) return;
    if (agenda.nowMs < frozenUntilMs) agenda.after(frozenUntilMs - agenda.nowMs, () => this.#now(act));
    else act();
  }
}

export class Machine {
  readonly agenda: Agenda;
  frozenUntilMs = 0;
  /** Until then nothing that is sent to it or by it arrives. */
  cutUntilMs = 0;
  /** How many times as long its work takes. */
  slowness = 1;
  /** Of its clock. */
  aheadMs = 0;

  constructor(agenda: Agenda) {
    this.agenda = agenda;
  }

  freeze(ms: number): void {
    this.frozenUntilMs = Math.max(this.frozenUntilMs, this.agenda.nowMs + ms);
  }

  cut(ms: number): void {
    this.cutUntilMs = Math.max(this.cutUntilMs, this.agenda.nowMs + ms);
  }
}
