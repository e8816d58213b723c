/** What the page `/talk` shows, state by state, and what it asks. */
import { describe, expect, it } from 'vitest';
import type { TalkFacts } from '../../../swarm/messages/talk.ts';
import { FIRST_TALK, isAsking, isAtOnce, mayAsk, nextTalk, olderSteps, questionOf, type TalkEvent } from './state.ts';

const FACTS: TalkFacts = {
  ...{ run: 'ship', committedSteps: 400, steps: 500, checkpoints: [400, 300, 200, 100, 50, 0] },
  ...{ parameters: 1_000, wasTrained: false, positions: 64, reads: 'text', isOff: false },
};
const TURNS: TalkFacts = { ...FACTS, reads: 'turns' };
const stateAfter = (...events: TalkEvent[]) => events.reduce(nextTalk, FIRST_TALK);
const came = (facts: TalkFacts = FACTS): TalkEvent => ({ type: 'factsCame', facts });
const ORIGIN = { fromStep: 400, toStep: 400, donors: 2 };
const asked = (words: string): readonly TalkEvent[] => [
  { type: 'asked', words, seed: 7 },
  { type: 'begun', step: null },
];
const wrote = (text: string, step: number | null = null): TalkEvent => ({
  ...{ type: 'told', step, told: { type: 'wrote', text }, seconds: 1 },
});
const whole = (step: number | null = null, origin = ORIGIN): TalkEvent => ({
  ...{ type: 'told', step, told: { type: 'whole', origin, finish: 'length' }, seconds: 2.5 },
});
const FAILURE = { status: 429, code: null, type: 'requests', message: '', retrySeconds: 5 };
const failed: TalkEvent = { type: 'told', step: null, told: { type: 'failed', failure: FAILURE }, seconds: 1 };

describe('the box', () => {
  it('begins with an example where a model goes on with texts, and is left alone afterwards', () => {
    expect(stateAfter(came()).typed).toBe('Once upon a time');
    expect(stateAfter(came(TURNS)).typed).toBe('');
    expect(stateAfter(came(), { type: 'typed', text: '' }, came()).typed).toBe('');
    expect(stateAfter({ type: 'typed', text: 'My own' }, came()).typed).toBe('My own');
  });

  it('can be asked with something in it, while nothing is asked, where asking is on', () => {
    expect(mayAsk(FIRST_TALK)).toBe(false);
    expect(mayAsk(stateAfter(came()))).toBe(true);
    expect(mayAsk(stateAfter(came(), { type: 'typed', text: ' \n' }))).toBe(false);
    expect(mayAsk(stateAfter(came({ ...FACTS, isOff: true })))).toBe(false);
    expect(mayAsk(stateAfter(came(), ...asked('A ship')))).toBe(false);
    expect(mayAsk(stateAfter(came(), ...asked('A ship'), whole()))).toBe(true);
  });
});

describe('an answer', () => {
  it('grows as it comes, and ends with where it is from', () => {
    const state = stateAfter(came(), ...asked('A ship'), wrote(' sai'), wrote('led'), whole());
    expect(state.exchanges).toEqual([
      {
        words: 'A ship',
        answer: { text: ' sailed', end: { type: 'whole', origin: ORIGIN, finish: 'length', seconds: 2.5 } },
      },
    ]);
    expect(isAsking(state)).toBe(false);
  });

  it('that is stopped keeps what came', () => {
    const state = stateAfter(came(), ...asked('A ship'), wrote(' sai'), { type: 'stopped' });
    expect(state.exchanges[0]?.answer).toEqual({ text: ' sai', end: { type: 'stopped' } });
    expect(isAsking(state)).toBe(false);
  });

  it('takes the place of the one before, but in a conversation comes after it', () => {
    const both = [...asked('One'), whole(), ...asked('Two')];
    expect(stateAfter(came(), ...both).exchanges.map(({ words }) => words)).toEqual(['Two']);
    expect(stateAfter(came(TURNS), ...both).exchanges.map(({ words }) => words)).toEqual(['One', 'Two']);
    const refused = [...asked('One'), failed, ...asked('Two')];
    expect(stateAfter(came(TURNS), ...refused).exchanges.map(({ words }) => words)).toEqual(['Two']);
    expect(stateAfter(came(TURNS), ...both, { type: 'begunAnew' }).exchanges).toEqual([]);
  });

  it('goes with its run', () => {
    const state = stateAfter(came(), ...asked('A ship'), whole(), came({ ...FACTS, run: 'other' }));
    expect([state.exchanges, state.facts?.run]).toEqual([[], 'other']);
  });

  it('is shown letter by letter at leisure, all else at once', () => {
    const [asks, writes, writesMore] = [
      stateAfter(came(), ...asked('A')),
      stateAfter(came(), ...asked('A'), wrote('b')),
      stateAfter(came(), ...asked('A'), wrote('b'), wrote('c')),
    ];
    expect([isAtOnce(asks, writes), isAtOnce(writes, writesMore)]).toEqual([false, false]);
    expect(isAtOnce(writesMore, nextTalk(writesMore, whole()))).toBe(true);
    expect(isAtOnce(asks, nextTalk(asks, { type: 'typed', text: 'x' }))).toBe(true);
  });
});

describe('older states', () => {
  it('are at most four, older than the answer, its first and last of them among them', () => {
    // Of five the places 0, 4/3, 8/3 and 4.
    const answered = stateAfter(came(), ...asked('A'), whole());
    expect(olderSteps(answered)).toEqual([0, 50, 200, 300]);
    const few = stateAfter(came({ ...FACTS, checkpoints: [400, 0] }), ...asked('A'), whole());
    expect(olderSteps(few)).toEqual([0]);
    const first = stateAfter(came(), ...asked('A'), whole(null, { fromStep: 0, toStep: 0, donors: 0 }));
    expect(olderSteps(first)).toEqual([]);
    expect(olderSteps(stateAfter(came(), ...asked('A'), failed))).toEqual([]);
  });

  it('answer each in its place, and those whose turn has not come go with a stop', () => {
    const steps: TalkEvent = { type: 'olderAsked', steps: [0, 300] };
    const state = stateAfter(came(), ...asked('A'), whole(), steps, { type: 'begun', step: 0 }, wrote('zz', 0));
    expect(state.older.map(({ step, answer }) => [step, answer.text, answer.end.type])).toEqual([
      [0, 'zz', 'coming'],
      [300, '', 'waiting'],
    ]);
    expect(isAsking(state)).toBe(true);
    const stopped = nextTalk(state, { type: 'stopped' });
    expect(stopped.older.map(({ step, answer }) => [step, answer.end.type])).toEqual([[0, 'stopped']]);
    expect(nextTalk(stopped, { type: 'asked', words: 'B', seed: 1 }).older).toEqual([]);
  });
});

describe('the call', () => {
  const HOW: TalkEvent = { type: 'chosen', how: { tokens: 40, temperature: 0 } };
  const EXPECTED = { max_tokens: 40, temperature: 0, seed: 7, stream: true };

  it('of a text names the run, or its saved state', () => {
    const state = stateAfter(came(), HOW, ...asked('A ship'));
    expect(questionOf(state, null)).toEqual({
      ...{ path: '/talk/completions', body: { ...EXPECTED, model: 'ship', prompt: 'A ship' } },
    });
    expect(questionOf(state, 300)?.body).toEqual({ ...EXPECTED, model: 'ship@300', prompt: 'A ship' });
  });

  it('of older states has what the newest were asked with, whatever was chosen since', () => {
    const state = stateAfter(came(), HOW, ...asked('A'), whole(), {
      type: 'chosen',
      how: { tokens: 300, temperature: 1 },
    });
    expect(questionOf(state, 0)?.body).toMatchObject(EXPECTED);
  });

  it('of turns has the conversation up to the newest question', () => {
    const state = stateAfter(came(TURNS), HOW, ...asked('Hello'), wrote('Hi'), whole(), ...asked('Who?'));
    const messages = [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'Hi' },
      { role: 'user', content: 'Who?' },
    ];
    expect(questionOf(state, null)).toEqual({
      ...{ path: '/talk/chat/completions', body: { ...EXPECTED, model: 'ship', messages } },
    });
  });

  it('is none before something is asked', () => {
    expect(questionOf(stateAfter(came()), null)).toBeNull();
  });
});
