/**
 * What the pages are told of a run beside its state: the loss where it stands, its right answers, which run comes next, and whether another
 * GPU would find a place. A plan that was looked for with one more donor, and left it out, says that it would not, for as
 * long as the same donors train.
 */
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import type { Store } from '../store/store.ts';
import type { RunObserver } from './runObserver.ts';

type OutlookStore = Pick<Store, 'queue' | 'steps' | 'newestRightAnswers'>;

export class Outlook implements RunObserver {
  /** The server is about to change to this run; null: it stays. */
  changesTo: string | null = null;
  readonly #store: OutlookStore;
  /** Somebody was told that it would make no step shorter, since the last look. */
  #wasLeftOut = false;
  /** Who trained then; null: nobody was left out. */
  #enough: string | null = null;

  constructor(store: OutlookStore) {
    this.#store = store;
  }

  effect(effect: DecisionEffect): void {
    if (effect.type !== 'send' || effect.message.type !== 'standby') return;
    const { state, why } = effect.message;
    if (state === 'spare' && (why === 'noGain' || why === 'full')) this.#wasLeftOut = true;
  }

  shown(snapshot: Snapshot): Partial<Pick<Snapshot, 'changesTo' | 'next' | 'isFull' | 'loss' | 'answersRight'>> {
    const training = snapshot.donors.flatMap(({ peer, stages }) => (stages.length > 0 ? peer : [])).join(' ');
    if (this.#wasLeftOut && training !== '') {
      this.#enough = training;
      this.#wasLeftOut = false;
    }
    const [next] = this.#store.queue();
    const { run, committedSteps } = snapshot;
    // The decisions forget it when they go back; the store has it.
    const isForgotten = snapshot.loss === null && committedSteps > 0;
    const loss = isForgotten ? this.#store.steps(run, committedSteps - 1)[0]?.loss : undefined;
    const answers = this.#store.newestRightAnswers(run);
    return {
      ...(loss !== undefined && { loss }),
      ...(answers !== null && { answersRight: answers.share }),
      ...(this.changesTo !== null && { changesTo: this.changesTo }),
      ...(next !== undefined && { next }),
      ...(training !== '' && training === this.#enough && { isFull: true as const }),
    };
  }
}
