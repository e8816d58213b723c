/**
 * Who may come into a run by invitation. An invitation is a word that a person chose: an address that says wrong ones has
 * to wait, and is not told meanwhile whether one is right.
 */
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import { isSameSecret } from '../http/secret.ts';
import { WrongInvitations } from './wrongInvitations.ts';

/** A class that was given a wrong link tries it once each. */
const WRONG_PER_MINUTE = 40;

export class Invitation {
  readonly #invite: string | null;
  readonly #wrong: WrongInvitations;

  /** `wrong`: what all processes of a site counted, where this is a server of one. */
  constructor(invite: string | null, wrong: WrongInvitations = new WrongInvitations()) {
    this.#invite = invite;
    this.#wrong = wrong;
  }

  /** What is said of it in links; null: there is none. */
  get token(): string | null {
    return this.#invite;
  }

  /** Everybody may come in. */
  get isOpen(): boolean {
    return this.#invite === null;
  }

  /** Why whoever says this may not come in; null: it may. */
  problem(said: string | undefined, address: string): RefusalReason | null {
    if (this.#invite === null) return null;
    if (this.#wrong.count(address) >= WRONG_PER_MINUTE) return 'wrongInvitations';
    if (said === undefined) return 'notInvited'; // it guesses nothing
    if (isSameSecret(said, this.#invite)) return null;
    this.#wrong.add(address);
    return 'notInvited';
  }
}
