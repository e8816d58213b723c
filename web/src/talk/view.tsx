/** What somebody who talks to the model sees. Pure. */
import { useEffect, useRef } from 'preact/hooks';
import type { TalkFacts } from '../../../swarm/messages/talk.ts';
import { invitedLink } from '../page/ask.ts';
import { Choice, onSubmit, TextArea } from '../page/fields.tsx';
import { countText } from '../page/format.ts';
import { Banner, Card, Press, SmallButton } from '../page/parts.tsx';
import {
  EXAMPLES,
  isAsking,
  LENGTHS,
  mayAsk,
  type OlderAnswer,
  olderSteps,
  type ShownAnswer,
  type TalkExchange,
  type TalkState,
  TEMPERATURES,
} from './state.ts';
import {
  failureSentence,
  modelSentence,
  OFF_SENTENCE,
  originSentence,
  PRIVACY_SENTENCE,
  spokenPieces,
} from './words.ts';

export interface TalkActions {
  type(text: string): void;
  choose(how: TalkState['how']): void;
  /** What stands in the box. */
  ask(): void;
  /** Has the model go on with its answer. */
  goOn(): void;
  askOlder(): void;
  stop(): void;
  /** Of the newest answer. */
  savePicture(): void;
  beginAnew(): void;
}

interface TalkProps {
  readonly state: TalkState;
  readonly actions: TalkActions;
  readonly invite: string | null;
}

export const talkTitle = ({ facts }: TalkState): string =>
  facts === null ? 'Talk to the model · Shoal' : `Talk to ${facts.run} · Shoal`;

export function TalkView({ state, actions, invite }: TalkProps) {
  const { facts, problem } = state;
  // Below what was said so far.
  const isTurns = facts?.reads === 'turns';
  return (
    <>
      <Banner page="Talk" invite={invite}>
        <a href={invitedLink('/status', invite)}>Status</a>
      </Banner>
      <main class="narrow">
        <section class="card" aria-labelledby="model">
          <h1 id="model">{facts === null ? 'Talk to the model' : `Talk to ${facts.run}`}</h1>
          <p class="lead">
            {facts === null ? (problem ?? 'Asking the server what there is to talk to.') : modelSentence(facts)}
          </p>
          {facts !== null && <Notes {...{ state, facts }} />}
          {facts !== null && !isTurns && <Question {...{ state, facts, actions }} />}
        </section>
        <Answers {...{ state, facts, actions }} />
        {facts !== null && isTurns && (
          <section class="card" aria-label="Ask">
            <Question {...{ state, facts, actions }} />
          </section>
        )}
        <section class="card">
          <h2>Help it learn</h2>
          <p>
            People train this model in their browsers. <a href={invitedLink('/', invite)}>Lend it your GPU</a>, or{' '}
            <a href={invitedLink('/status', invite)}>see how the training goes</a>.
          </p>
        </section>
      </main>
    </>
  );
}

interface PartProps extends Omit<TalkProps, 'invite'> {
  readonly facts: TalkFacts;
}

function Notes({ state, facts }: Omit<PartProps, 'actions'>) {
  if (facts.isOff) return <p class="notice">{OFF_SENTENCE}</p>;
  return (
    <>
      {state.problem !== null && <p class="notice">{state.problem}</p>}
      <p class="soft small">{PRIVACY_SENTENCE}</p>
    </>
  );
}

function Question({ state, facts, actions }: PartProps) {
  if (facts.isOff) return null;
  const isTurns = facts.reads === 'turns';
  const busy = isAsking(state);
  const off = !mayAsk(state);
  const onKeyDown = (event: KeyboardEvent): void => {
    const sends = isTurns ? !event.shiftKey : event.ctrlKey || event.metaKey;
    if (event.key !== 'Enter' || event.isComposing || !sends) return;
    event.preventDefault();
    actions.ask();
  };
  return (
    <form class="question" onSubmit={onSubmit(actions.ask)}>
      <TextArea
        label={isTurns ? 'Your message' : 'Write the beginning, and the model goes on'}
        value={state.typed}
        onInput={actions.type}
        area={{ rows: 3, onKeyDown }}
      />
      {!isTurns && (
        <p class="examples">
          <span class="soft small">Or begin with</span>
          {EXAMPLES.slice(1).map((example) => (
            <SmallButton key={example} onClick={() => actions.type(example)}>
              {example} …
            </SmallButton>
          ))}
        </p>
      )}
      <How {...{ state, actions }} />
      <div class="buttons">
        <button type="submit" class="primary" aria-disabled={off || undefined}>
          {isTurns ? 'Send' : 'Let it go on'}
        </button>
        <Press isOff={!busy} onPress={actions.stop}>
          Stop
        </Press>
        {isTurns && (
          <Press isOff={busy || state.exchanges.length === 0} onPress={actions.beginAnew}>
            Begin anew
          </Press>
        )}
      </div>
    </form>
  );
}

const LENGTH_WORDS = ['short', 'medium', 'long'];
const CHANCE_WORDS = ['none: always what is likeliest', 'little', 'as it has learnt', 'much'];

function How({ state: { how }, actions }: Pick<PartProps, 'state' | 'actions'>) {
  return (
    <details>
      <summary>Length and chance</summary>
      <div class="fields">
        <Choice
          label="How long"
          value={how.tokens}
          options={LENGTHS.map(
            (tokens, index) => [tokens, `${LENGTH_WORDS[index]}: ${tokens} tokens at most`] as const,
          )}
          choose={(tokens) => actions.choose({ ...how, tokens })}
        />
        <Choice
          label="Chance in each word"
          value={how.temperature}
          options={TEMPERATURES.map((each, index) => [each, `${CHANCE_WORDS[index]} (${each})`] as const)}
          choose={(temperature) => actions.choose({ ...how, temperature })}
        />
      </div>
    </details>
  );
}

type AnswersProps = Omit<PartProps, 'facts'> & { readonly facts: TalkFacts | null };

function Answers({ state, facts, actions }: AnswersProps) {
  const { exchanges, older } = state;
  const place = useRef<HTMLDivElement>(null);
  const newest = exchanges.at(-1);
  const end = newest?.answer.end;
  // What was asked for is in sight, also in a small window.
  useEffect(() => {
    if (end?.type === 'coming') place.current?.scrollIntoView({ block: 'nearest' });
  }, [newest?.words, end?.type]);
  if (facts === null || exchanges.length === 0) return null;
  const steps = olderSteps(state);
  const isGoing = facts.reads === 'text' && end?.type === 'whole' && end.finish === 'length';
  return (
    <Card id="answer" title={facts.reads === 'turns' ? 'Conversation' : 'What it writes'}>
      <div role="log" aria-labelledby="answer">
        {exchanges.map((exchange, index) => (
          <Said key={index} exchange={exchange} reads={facts.reads} />
        ))}
        <div ref={place} />
      </div>
      <div class="buttons">
        {isGoing && (
          <Press isOff={isAsking(state)} onPress={actions.goOn}>
            Go on
          </Press>
        )}
        {(steps.length > 0 || older.length > 0) && (
          <Press isOff={isAsking(state)} onPress={actions.askOlder}>
            Ask older checkpoints, too
          </Press>
        )}
        {end?.type === 'whole' && <Press onPress={actions.savePicture}>Save as a picture</Press>}
      </div>
      {older.length > 0 && <Older {...{ older, exchanges, reads: facts.reads }} />}
    </Card>
  );
}

interface SaidProps {
  readonly exchange: TalkExchange;
  readonly reads: TalkFacts['reads'];
}

function Said({ exchange: { words, answer }, reads }: SaidProps) {
  return (
    <figure class="said">
      {reads === 'turns' && <p class="own-words">{words}</p>}
      <blockquote>
        {reads === 'text' && <strong>{words}</strong>}
        <Written answer={answer} />
      </blockquote>
      <figcaption>{endText(answer, null, reads)}</figcaption>
    </figure>
  );
}

/** Read out piece by piece, each when it is whole. */
function Written({ answer: { text, end } }: { readonly answer: ShownAnswer }) {
  const { pieces, rest } = spokenPieces(text);
  const isComing = end.type === 'coming';
  const spoken = isComing || rest === '' ? pieces : [...pieces, rest];
  return (
    <>
      {spoken.map((piece, index) => (
        <span key={index}>{piece}</span>
      ))}
      {isComing && <span aria-hidden="true">{rest}</span>}
      {isComing && <span class="cursor" aria-hidden="true" />}
    </>
  );
}

function endText({ text, end }: ShownAnswer, step: number | null, reads: TalkFacts['reads']): string {
  switch (end.type) {
    case 'waiting':
      return 'Its turn comes.';
    case 'coming':
      return text === '' ? 'Waiting for its first word.' : 'Writing.';
    case 'stopped':
      return 'Stopped.';
    case 'whole':
      return `${text === '' ? 'It had nothing to say. ' : ''}${originSentence(end.origin, end.seconds)}`;
    case 'failed':
      return failureSentence(end.failure, step, reads);
  }
}

interface OlderProps {
  readonly older: readonly OlderAnswer[];
  readonly exchanges: readonly TalkExchange[];
  readonly reads: TalkFacts['reads'];
}

/** The same question to older states, and what the newest weights said below them. */
function Older({ older, exchanges, reads }: OlderProps) {
  const newest = exchanges.at(-1);
  // They go on with the text that stands above.
  const lead = reads === 'text' ? '…' : '';
  return (
    <section class="learnt" aria-labelledby="older">
      <h3 id="older">How it learnt</h3>
      <p class="soft small">The same question, the same chance, asked of what it was before.</p>
      <ol class="older" aria-live="polite">
        {older.map(({ step, answer }) => (
          <li key={step}>
            <h4>{step === 0 ? 'Before it learnt anything' : `After step ${countText(step)}`}</h4>
            {answer.text !== '' && (
              <blockquote>
                {lead}
                <Written answer={answer} />
              </blockquote>
            )}
            <p class="soft small">{endText(answer, step, reads)}</p>
          </li>
        ))}
        {newest?.answer.end.type === 'whole' && (
          <li key="newest">
            <h4>Now, after step {countText(newest.answer.end.origin.toStep)}</h4>
            <blockquote>
              {lead}
              {newest.answer.text}
            </blockquote>
          </li>
        )}
      </ol>
    </section>
  );
}
