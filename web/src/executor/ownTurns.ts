/**
 * This peer's turns on the line that it shares with others: of its stream, each message goes when the one before it in the
 * plan's order has left, which another one says by a word; then it says so to whose message is next. See SPEC.md, PL63.
 */
import type { PeerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import type { MicroAction } from '../../../swarm/schedule/action.ts';
import { turnsOf, turnText } from '../../../swarm/simulate/lineTurns.ts';
import { turnTensor } from '../../../swarm/ways/tensors.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

interface Words {
  readonly receive: Receive;
  readonly say: (to: PeerId, key: TensorKey) => Promise<unknown>;
}

export interface OwnTurn {
  /** Until it is this message's turn. */
  readonly come: Promise<unknown>;
  /** The message is under way; resolves when the next one's sender has heard that it has left. */
  over(sent: Promise<unknown>): Promise<unknown>;
}

export class OwnTurns {
  readonly #role: Pick<Role, 'plan' | 'peer' | 'epoch'>;
  readonly #step: number;
  readonly #turns: ReturnType<typeof turnsOf>;
  readonly #words: Words;
  /** Of its own messages the one before. */
  #left: Promise<unknown> = Promise.resolve();

  constructor(role: Pick<Role, 'plan' | 'peer' | 'epoch'>, step: number, words: Words) {
    this.#role = role;
    this.#step = step;
    this.#turns = turnsOf(role.plan, role.peer);
    this.#words = words;
  }

  /** In the order in which they are sent. Null: it goes over no shared line. */
  next(action: MicroAction): OwnTurn | null {
    const { peer } = this.#role;
    const turn = this.#turns.get(turnText(action));
    if (turn === undefined) return null;
    const { after, next } = turn;
    const word = after !== null && after !== peer ? this.#words.receive(this.#word(action), after) : null;
    const come = Promise.all([this.#left, word]);
    come.catch(() => undefined); // whose message it is hears of it
    return {
      come,
      over: (sent) => {
        this.#left = sent;
        if (next === null || next.from === peer) return sent;
        const told = sent.then(() => this.#words.say(next.from, this.#word(next.action)));
        told.catch(() => undefined); // awaited at the end of the step
        return told;
      },
    };
  }

  #word(action: MicroAction): TensorKey {
    return { ...turnTensor(action), epoch: this.#role.epoch, step: this.#step };
  }
}
