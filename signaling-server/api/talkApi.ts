/**
 * What the page `/talk` asks: what there is to talk to, and the answers themselves. They are made by the same calls as those of
 * `/v1`, but need no key: whoever may see what the model writes may ask the active run, so many tokens an hour from each address.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { REFUSAL_SENTENCES } from '../../swarm/messages/refusals.ts';
import type { TalkFacts } from '../../swarm/messages/talk.ts';
import { allParameters } from '../../swarm/model/model.ts';
import { type AnswerApiOptions, addAnswerCalls } from '../answers/answerApi.ts';
import type { LetIn } from '../answers/apiCallers.ts';
import { type ApiError, invalid, tooMany } from '../answers/apiErrors.ts';
import { type Access, isSameOrigin } from '../http/access.ts';
import { perMinute } from '../http/calls.ts';
import { networkOf } from '../http/networkOf.ts';
import type { ActiveRun } from '../run/run.ts';
import { storedDocument } from '../store/runDocument.ts';
import { stepsOf } from '../store/runTime.ts';
import type { Visible } from './visible.ts';

const READS_PER_MINUTE = 120;
/** Saved states that the page may ask, beside the initial one. */
const CHECKPOINTS = 5;
const WAIT_SECONDS = 60;

export interface TalkOptions extends AnswerApiOptions {
  readonly run: ActiveRun;
  readonly access: Access;
  readonly visible: Visible;
}

export function addTalkApi(app: FastifyInstance, options: TalkOptions): void {
  const { run, store, texts, callers, visible } = options;
  const seen = { ...perMinute(READS_PER_MINUTE), onRequest: visible.only('samples') };
  app.get('/api/talk', seen, async (): Promise<TalkFacts> => {
    const text = await texts.of(run.name);
    const saved = store.checkpoints(run.name).map(({ committedSteps }) => committedSteps);
    const trained = saved.filter((step) => step > 0).slice(-CHECKPOINTS);
    return {
      ...{ run: run.name, committedSteps: run.committedSteps, steps: stepsOf(store, run.name, run.facts.train) },
      checkpoints: [...saved.filter((step) => step === 0), ...trained].toReversed(),
      parameters: allParameters(run.model),
      wasTrained: typeof storedDocument(store, run.name).file.init === 'string',
      positions: run.model.positions,
      reads: text.chat?.([{ role: 'user', content: 'Hello' }]).ok ? 'turns' : 'text',
      isOff: callers.mode === 'off',
    };
  });
  app.register(async (talk) => addAnswerCalls(talk, options, (request) => letIn(options, request)), {
    prefix: '/talk',
  });
}

/** Whoever asks for this may talk: the pages link there. */
export const mayTalk = ({ run, visible, callers }: TalkOptions, request: FastifyRequest): boolean =>
  callers.mode !== 'off' &&
  visible.refusal('samples', request) === null &&
  !run.reception.isBlocked(networkOf(request.ip));

function letIn({ run, access, visible, callers }: TalkOptions, request: FastifyRequest): LetIn | ApiError {
  if (!isSameOrigin(request.headers, access)) return refused('only the page /talk may ask this way', 'foreign_page');
  if (run.reception.isBlocked(networkOf(request.ip)))
    return refused('whoever runs this server has blocked this network address', 'blocked');
  const reason = visible.refusal('samples', request);
  if (reason === 'wrongInvitations') return tooMany('requests', REFUSAL_SENTENCES[reason], WAIT_SECONDS);
  if (reason !== null) return refused(REFUSAL_SENTENCES[reason], reason);
  return callers.letInFromPage(request, run.name);
}

const refused = (sentence: string, code: string): ApiError => invalid(null, sentence, code, 403);
