/** The page `/talk`: asks the model what somebody typed, and shows the answer as it comes. Nothing of it is kept. */
import '../page/noEval.ts';
import { render } from 'preact';
import { talkFactsSchema } from '../../../swarm/messages/talk.ts';
import { look, withInvite } from '../page/ask.ts';
import { monotonicMs } from '../page/clock.ts';
import { Live } from '../page/live.ts';
import { askModel } from './answerStream.ts';
import { savePicture } from './picture.ts';
import { FIRST_TALK, isAsking, isAtOnce, mayAsk, nextTalk, olderSteps, questionOf } from './state.ts';
import { type TalkActions, TalkView, talkTitle } from './view.tsx';
import { originSentence } from './words.ts';

const LOOK_MS = 20_000;
const MOST_SEED = 2 ** 31;

const invite = new URLSearchParams(location.hash.slice(1)).get('invite');
const live = new Live(FIRST_TALK, nextTalk, isAtOnce);
let work = new AbortController();

async function lookUp(): Promise<void> {
  const facts = await look(withInvite('/api/talk', invite), talkFactsSchema);
  if (facts.ok) live.dispatch({ type: 'factsCame', facts: facts.value });
  else live.dispatch({ type: 'factsRefused', reason: facts.reason });
  document.title = talkTitle(live.current);
}

/** `step`: of a saved state; null: the newest weights. */
async function answer(step: number | null, { signal }: AbortController): Promise<void> {
  const question = questionOf(live.current, step);
  if (question === null || signal.aborted) return;
  const beganMs = monotonicMs();
  live.dispatch({ type: 'begun', step });
  for await (const told of askModel(withInvite(question.path, invite), question.body, signal)) {
    if (signal.aborted) return;
    live.dispatch({ type: 'told', step, told, seconds: (monotonicMs() - beganMs) / 1_000 });
  }
}

async function ask(words: string): Promise<void> {
  if (isAsking(live.current)) return;
  work = new AbortController();
  live.dispatch({ type: 'asked', words, seed: Math.floor(Math.random() * MOST_SEED) });
  await answer(null, work);
  await lookUp();
}

const actions: TalkActions = {
  type: (text) => live.dispatch({ type: 'typed', text }),
  choose: (how) => live.dispatch({ type: 'chosen', how }),
  ask: () => {
    if (mayAsk(live.current)) void ask(live.current.typed);
  },
  goOn: () => {
    const newest = live.current.exchanges.at(-1);
    if (newest) void ask(newest.words + newest.answer.text);
  },
  // One after the other: the server has few places for that, and others ask too.
  askOlder: async () => {
    if (isAsking(live.current)) return;
    work = new AbortController();
    const mine = work;
    const steps = olderSteps(live.current);
    live.dispatch({ type: 'olderAsked', steps });
    for (const step of steps) await answer(step, mine);
  },
  stop: () => {
    work.abort();
    live.dispatch({ type: 'stopped' });
  },
  savePicture: () => {
    const { facts, exchanges } = live.current;
    const newest = exchanges.at(-1);
    if (facts === null || newest?.answer.end.type !== 'whole') return;
    const { words, answer } = newest;
    const { origin, seconds } = newest.answer.end;
    const about = [`${facts.run}, a small language model that makes things up.`, originSentence(origin, seconds)];
    const shown = facts.reads === 'turns' ? `${words}\n\n` : words;
    void savePicture({ words: shown, answer: answer.text, about, name: `${facts.run}-${origin.toStep}.png` });
  },
  beginAnew: () => live.dispatch({ type: 'begunAnew' }),
};

function Page() {
  return <TalkView state={live.shown.value} actions={actions} invite={invite} />;
}

render(<Page />, document.body.querySelector('#page') ?? document.body);
const lookAgain = (): void => {
  if (document.visibilityState === 'visible' && !isAsking(live.current)) void lookUp();
};
lookAgain();
setInterval(lookAgain, LOOK_MS);
document.addEventListener('visibilitychange', lookAgain);
