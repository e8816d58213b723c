/**
 * Answers out of the donors' idle time: which plan is in force is told to the pure part (swarm/answers/answering.ts), what
 * donors say of their pieces too, and what it draws becomes the stream of whoever asked.
 */
import { Answering, NOBODY_ANSWERS } from '../../swarm/answers/answering.ts';
import { seedWord } from '../../swarm/answers/drawToken.ts';
import type { PeerId } from '../../swarm/base.ts';
import type { AnsweredMessage, AnswerMessage, UnansweredMessage } from '../../swarm/messages/answerWords.ts';
import type { AnswerNumbers } from '../../swarm/messages/apiKeys.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { RunCounts } from '../monitoring/metrics.ts';
import { type AnsweredToken, type Answerer, AnswerFault, type ModelAnswer, type Question } from './answerer.ts';
import { AnswerFigures } from './answerFigures.ts';
import { TokenStream } from './tokenStream.ts';

/** How often it is looked whether a piece is overdue. */
const LOOK_MS = 5_000;
/** So long conversations wait for another plan. */
const NO_PLAN_MS = 10_000;

export interface DonorAnswersHost {
  readonly vocabulary: number;
  readonly nowMs: () => number;
  readonly counts: Pick<RunCounts, 'tokenAnswered' | 'sentAway'>;
  send(to: PeerId, message: AnswerMessage): void;
  isConnected(peer: PeerId): boolean;
  /** What no donor's values are ahead of. */
  committedSteps(): number;
  /** kept: the run stands, and its members keep the newest plan. over: there will be no other. */
  inForce(): { readonly epoch: number; readonly plan: Plan } | 'kept' | 'over' | null;
}

/** No donor goes on with it: whoever else has the weights may. */
class DonorsGone extends AnswerFault {}

export class DonorAnswers implements Answerer {
  readonly figures: AnswerFigures;
  readonly #host: DonorAnswersHost;
  readonly #answering: Answering;
  readonly #timer: NodeJS.Timeout;
  #newest: { readonly epoch: number; readonly plan: Plan } | null = null;
  #goneTimer: NodeJS.Timeout | null = null;

  constructor(host: DonorAnswersHost) {
    this.#host = host;
    this.figures = new AnswerFigures(host.counts, host.nowMs);
    this.#answering = new Answering(host.vocabulary, (to, message) => host.send(to, message));
    this.#timer = setInterval(() => this.#answering.look(host.nowMs()), LOOK_MS).unref();
  }

  /** An event of the run was handled. */
  changed(): void {
    const found = this.#host.inForce();
    const isHere = ({ plan }: { readonly plan: Plan }): boolean =>
      plan.stages.every(({ members }) => members.every(({ peer }) => this.#host.isConnected(peer)));
    if (found === 'kept') this.#newest = this.#newest && isHere(this.#newest) ? this.#newest : null;
    else this.#newest = found === 'over' ? null : found;
    this.#answering.planned(this.#newest, this.#host.nowMs());
    if (this.#newest !== null) {
      clearTimeout(this.#goneTimer ?? undefined);
      this.#goneTimer = null;
    } else if (found === 'over') this.#answering.close(NOBODY_ANSWERS);
    else this.#goneTimer ??= setTimeout(() => this.#answering.close(NOBODY_ANSWERS), NO_PLAN_MS).unref();
  }

  said(peer: PeerId, message: AnsweredMessage | UnansweredMessage): void {
    if (message.type === 'answered') {
      this.figures.worked(message.seconds, this.#answering.donors);
      const steps = Math.min(message.steps, this.#host.committedSteps());
      this.#answering.answered(peer, { ...message, steps }, this.#host.nowMs());
    } else this.#answering.unanswered(peer, message, this.#host.nowMs());
  }

  get numbers(): AnswerNumbers {
    return { open: this.#answering.open, ...this.figures.numbers };
  }

  async answer(question: Question, signal: AbortSignal): Promise<ModelAnswer> {
    const room = this.#answering.room(question.from, question.ids.length, this.#host.nowMs());
    if (room.is === 'busy')
      return { ok: false, refusal: { of: 'busy', retrySeconds: Math.ceil(room.retryMs / 1_000) } };
    if (room.is === 'none' || question.step !== null)
      return { ok: false, refusal: { of: 'notThere', sentence: NOBODY_ANSWERS } };
    const { firstTokenMs, tokenMs } = room;
    const tokens = this.#tokens(question, signal);
    return firstTokenMs === null || !tokenMs
      ? { ok: true, tokens }
      : { ok: true, tokens, promise: { firstTokenSeconds: firstTokenMs / 1_000, tokensPerSecond: 1_000 / tokenMs } };
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#goneTimer ?? undefined);
    this.#answering.close('the run ended here');
  }

  async *#tokens({ ids, ends, seed, ...wanted }: Question, signal: AbortSignal): AsyncGenerator<AnsweredToken> {
    const stream = new TokenStream<AnsweredToken>();
    const asker = {
      token: (token: number, by: Omit<AnsweredToken, 'token'>) => stream.push({ token, ...by }),
      ended: (reason: string | null) => stream.end(reason === null ? null : faultOf(reason)),
    };
    const takeBack = this.#answering.ask({ ids, ...wanted, seed: seedWord(seed) }, asker, this.#host.nowMs());
    const stop = (): void => stream.end(null);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    try {
      for await (const next of stream) {
        if (signal.aborted) return;
        yield next;
        if (ends.includes(next.token)) return;
      }
    } finally {
      signal.removeEventListener('abort', stop);
      takeBack();
    }
  }
}

const faultOf = (reason: string): AnswerFault =>
  reason === NOBODY_ANSWERS ? new DonorsGone(NOBODY_ANSWERS) : new AnswerFault(reason);

interface AskedRun {
  readonly name: string;
  readonly answers: Answerer & Pick<DonorAnswers, 'figures'>;
}

/**
 * The active run's newest weights are asked of its donors; all else, and what they cannot go on with, of the server's own
 * processor.
 */
export const donorsFirst = (run: AskedRun, server: Answerer): Answerer => ({
  async answer(question, signal) {
    const askedMs = monotonicMs();
    const isRuns = question.run === run.name && question.step === null;
    const byDonors = isRuns ? await run.answers.answer(question, signal) : null;
    const isLeft = byDonors === null || (!byDonors.ok && byDonors.refusal.of === 'notThere');
    const answer = isLeft ? await server.answer(question, signal) : byDonors;
    if (!answer.ok) {
      if (answer.refusal.of === 'busy') run.answers.figures.sentAway();
      return answer;
    }
    const tokens = isLeft ? answer.tokens : continued(answer.tokens, server, question, signal);
    return { ...answer, tokens: counted(tokens, run.answers.figures, askedMs) };
  },
});

async function* counted(
  tokens: AsyncIterable<AnsweredToken>,
  figures: AnswerFigures,
  askedMs: number,
): AsyncGenerator<AnsweredToken> {
  let isFirst = true;
  for await (const token of tokens) {
    figures.tokenAnswered(token.donors > 0 ? 'donors' : 'server', isFirst ? (monotonicMs() - askedMs) / 1_000 : null);
    isFirst = false;
    yield token;
  }
}

async function* continued(
  tokens: AsyncIterable<AnsweredToken>,
  server: Answerer,
  question: Question,
  signal: AbortSignal,
): AsyncGenerator<AnsweredToken> {
  const ids = [...question.ids];
  let newest: AnsweredToken | null = null;
  try {
    for await (const token of tokens) {
      ids.push(token.token);
      newest = token;
      yield token;
    }
    return;
  } catch (error) {
    if (!(error instanceof DonorsGone)) throw error;
  }
  const mostTokens = question.mostTokens - (ids.length - question.ids.length);
  const rest = await server.answer({ ...question, ids, mostTokens }, signal);
  if (!rest.ok) throw new AnswerFault('the donors left, and the server cannot go on by itself');
  for await (const token of rest.tokens) {
    const { fromStep, toStep, donors } = newest ?? token;
    yield {
      token: token.token,
      fromStep: Math.min(fromStep, token.fromStep),
      toStep: Math.max(toStep, token.toStep),
      donors,
    };
  }
}
