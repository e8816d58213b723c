/**
 * What a step does beside its micro-batches, noted when it begins and when it ends: what was over before the report goes
 * with it, all else is told with the next one. Parts of one hand-over count as one span, from the first to the last.
 */
import type { PeerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import { type BesideAction, type BesideOp, type BesideSpan, besideText } from '../../../swarm/timeline/beside.ts';
import type { ReportedSpan } from '../../../swarm/timeline/measured.ts';

type Sent = Pick<TensorKey, 'kind' | 'stage' | 'index'>;

/** Null: a word, or what is measured otherwise. */
function actionOf({ kind, stage, index }: Sent): BesideAction | null {
  if (kind === 'activation') return { op: 'SEND_F', stage: stage - 1, microBatch: index };
  if (kind === 'gradient') return { op: 'SEND_B', stage: stage + 1, microBatch: index };
  if (kind === 'slice' || kind === 'share') return { op: 'REDUCE', stage };
  return kind === 'values' ? { op: 'SEND_V' } : null;
}

const ONE_BY_ONE: readonly BesideOp[] = ['GATHER_F', 'GATHER_B', 'ANSWER'];

export class BesideLog {
  readonly #peer: PeerId;
  readonly #now: () => number;
  readonly #spans = new Map<string, BesideSpan>();
  /** Parts of a hand-over that are still under way. */
  readonly #open = new Map<string, number>();
  readonly #told = new Set<string>();
  /** Hears of each span that ends from now on; null: they are asked for. */
  #tell: ((span: BesideSpan) => void) | null = null;

  constructor(peer: PeerId, now: () => number) {
    this.#peer = peer;
    this.#now = now;
  }

  /** From now until then; what fails is no span. Each gather of a block is one of its own, and so is each piece of answers. */
  until(action: BesideAction, done: Promise<unknown>): void {
    const startSeconds = this.#now();
    const isOne = ONE_BY_ONE.includes(action.op);
    const key = isOne ? `${besideText(action)} ${startSeconds}` : besideText(action);
    this.#open.set(key, (this.#open.get(key) ?? 0) + 1);
    done.then(
      () => {
        const first = this.#spans.get(key)?.startSeconds ?? startSeconds;
        const span = { startSeconds: Math.min(first, startSeconds), endSeconds: this.#now() };
        this.#spans.set(key, { peer: this.#peer, action, ...span });
        this.#open.set(key, (this.#open.get(key) ?? 1) - 1);
        if (this.#tell) for (const one of this.take(1)) this.#tell(one);
      },
      () => undefined, // whose it is hears of it
    );
  }

  /** A tensor on its way to another peer: from now, or from when its turn comes. */
  sent(tensor: Sent, done: Promise<unknown>, turn?: Promise<unknown>): void {
    const action = actionOf(tensor);
    if (action === null) return;
    if (turn)
      void turn.then(() => this.until(action, done)).catch(() => undefined); // whose it is hears of it
    else this.until(action, done);
  }

  /** Those that are over, at most so many, each once. */
  take(most: number): BesideSpan[] {
    const over = [...this.#spans].filter(([key]) => !this.#told.has(key) && !this.#open.get(key)).slice(0, most);
    for (const [key] of over) this.#told.add(key);
    return over.map(([, span]) => span);
  }

  /** Those that are over, at most so many, and as they end all others. */
  tell(most: number, to: (span: BesideSpan) => void): void {
    for (const span of this.take(most)) to(span);
    this.#tell = to;
  }
}

export const besideReported = ({ action, startSeconds, endSeconds }: BesideSpan): ReportedSpan => ({
  action: besideText(action),
  start: startSeconds,
  end: endSeconds,
});
