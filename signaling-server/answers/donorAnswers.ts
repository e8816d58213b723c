/**
 * Answers out of the donors' idle time: which plan is in force is told to the pure part (swarm/answers/answering.ts), what
 * donors say of their pieces too, and what it draws becomes the stream of whoever asked.
 */
import { Answering } from '../../swarm/answers/answering.ts';
import type { PeerId } from '../../swarm/base.ts';
import type { AnsweredMessage, AnswerMessage, UnansweredMessage } from '../../swarm/messages/answerWords.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { type AnsweredToken, type Answerer, AnswerFault, type ModelAnswer, type Question } from './answerer.ts';

/** How often it is looked whether a piece is overdue. */
const LOOK_MS = 5_000;
/** When to ask again where too many wait. */
const BUSY_SECONDS = 5;

export interface DonorAnswersHost {
  readonly nowMs: () => number;
  send(to: PeerId, message: AnswerMessage): void;
  isConnected(peer: PeerId): boolean;
  /** kept: the run stands, and its members keep the newest plan. */
  inForce(): { readonly epoch: number; readonly plan: Plan } | 'kept' | null;
}

export class DonorAnswers implements Answerer {
  readonly #host: DonorAnswersHost;
  readonly #answering: Answering;
  readonly #timer: NodeJS.Timeout;
  #newest: { readonly epoch: number; readonly plan: Plan } | null = null;

  constructor(host: DonorAnswersHost) {
    this.#host = host;
    this.#answering = new Answering((to, message) => host.send(to, message));
    this.#timer = setInterval(() => this.#answering.look(host.nowMs()), LOOK_MS).unref();
  }

  /** An event of the run was handled. */
  changed(): void {
    const found = this.#host.inForce();
    const isHere = ({ plan }: { readonly plan: Plan }): boolean =>
      plan.stages.every(({ members }) => members.every(({ peer }) => this.#host.isConnected(peer)));
    const next = found === 'kept' ? this.#newest : found;
    this.#newest = next && isHere(next) ? next : null;
    this.#answering.planned(this.#newest, this.#host.nowMs());
  }

  said(peer: PeerId, message: AnsweredMessage | UnansweredMessage): void {
    if (message.type === 'answered') this.#answering.answered(peer, message, this.#host.nowMs());
    else this.#answering.unanswered(peer, message, this.#host.nowMs());
  }

  async answer(question: Question, signal: AbortSignal): Promise<ModelAnswer> {
    const room = this.#answering.room(this.#host.nowMs());
    if (room === 'busy') return { ok: false, refusal: { of: 'busy', retrySeconds: BUSY_SECONDS } };
    if (room === 'none' || question.step !== null)
      return { ok: false, refusal: { of: 'notThere', sentence: 'no donor computes with these weights' } };
    return { ok: true, tokens: this.#tokens(question, signal) };
  }

  close(): void {
    clearInterval(this.#timer);
    this.#answering.close('the run ended here');
  }

  async *#tokens({ ids, ends, seed, ...wanted }: Question, signal: AbortSignal): AsyncGenerator<AnsweredToken> {
    const come: AnsweredToken[] = [];
    let outcome: { readonly reason: string | null } | null = null;
    let wake = (): void => {};
    const asker = {
      token: (token: number, by: Omit<AnsweredToken, 'token'>) => {
        come.push({ token, ...by });
        wake();
      },
      ended: (reason: string | null) => {
        outcome = { reason };
        wake();
      },
    };
    const word = (seed ^ Math.floor(seed / 2 ** 32)) >>> 0;
    const takeBack = this.#answering.ask({ ids, ...wanted, seed: word }, asker, this.#host.nowMs());
    const stop = (): void => wake();
    signal.addEventListener('abort', stop);
    try {
      while (!signal.aborted) {
        const next = come.shift();
        if (next) {
          yield next;
          if (ends.includes(next.token)) return;
          continue;
        }
        const ended = outcome as { readonly reason: string | null } | null;
        if (ended?.reason) throw new AnswerFault(ended.reason);
        if (ended) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      signal.removeEventListener('abort', stop);
      takeBack();
    }
  }
}
