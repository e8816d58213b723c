/**
 * Whom this tab may reach at this moment, as it follows from what the server tells it: everyone with whom the plan in force,
 * or the one that may come next, or a meeting, has it exchange tensors. The page works it out when the word comes, before the worker
 * hears of it, so that a signal of the other end never comes too early.
 */
import type { PeerId } from '../../../swarm/base.ts';
import type { ServerMessage } from '../../../swarm/messages/messages.ts';
import { meetingPartners } from '../../../swarm/ways/meeting.ts';
import { arrivalPartners, planPartners, type Sizes } from '../../../swarm/ways/partners.ts';

type Prepare = Extract<ServerMessage, { type: 'prepare' }>;
const NOBODY: ReadonlySet<PeerId> = new Set();

export class Reach {
  readonly #me: PeerId;
  readonly #sizes: Sizes;
  /** Whose first step has not started yet. */
  #prepared: Prepare | null = null;
  #now = NOBODY;
  #next = NOBODY;
  /** Whose islands this tab's meet, from the first meeting under a plan on. */
  #meeting = NOBODY;

  constructor(me: PeerId, sizes: Sizes) {
    this.#me = me;
    this.#sizes = sizes;
  }

  /** Who may be reached from this message on; null: it changes nothing. */
  told(message: ServerMessage): ReadonlySet<PeerId> | null {
    switch (message.type) {
      case 'prepare':
        this.#prepared = message;
        this.#now = arrivalPartners(this.#sizes, message).get(this.#me) ?? NOBODY;
        if (message.source.from !== 'kept') this.#next = NOBODY;
        this.#meeting = NOBODY;
        break;
      case 'warm':
        this.#next = planPartners(this.#sizes, message.plan).get(this.#me) ?? NOBODY;
        break;
      case 'start':
      case 'evaluate':
        if (this.#prepared?.epoch !== message.epoch) return null;
        this.#now = planPartners(this.#sizes, this.#prepared.plan).get(this.#me) ?? NOBODY;
        this.#prepared = null;
        break;
      case 'meet': {
        const { model, islands } = this.#sizes;
        const partners = islands ? meetingPartners(model, islands, message.groups, message.owners) : null;
        this.#meeting = partners?.get(this.#me) ?? NOBODY;
        break;
      }
      case 'standby':
        if (message.state === 'finished') return null; // questions still go from stage to stage
        this.#prepared = null;
        this.#now = NOBODY;
        // A spare one may own something, and meet others.
        if (message.state !== 'spare') this.#meeting = NOBODY;
        break;
      default:
        return null;
    }
    return new Set([...this.#now, ...this.#next, ...this.#meeting]);
  }
}
