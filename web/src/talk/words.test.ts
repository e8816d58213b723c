/** The sentences of the page `/talk`, and how its answers are read out. */
import { describe, expect, it, test } from 'vitest';
import type { TalkFacts } from '../../../swarm/messages/talk.ts';
import type { AnswerFailure } from './answerStream.ts';
import { failureSentence, modelSentence, originSentence, spokenPieces } from './words.ts';

const FACTS: TalkFacts = {
  ...{ run: 'ship', committedSteps: 400, steps: 5_000, checkpoints: [0], parameters: 1_234_567, wasTrained: false },
  ...{ positions: 64, reads: 'text', isOff: false },
};

test('what the model is', () => {
  const at = (committedSteps: number): string => modelSentence({ ...FACTS, committedSteps });
  const size = 'A small language model (1.2 million parameters)';
  expect([0, 200, 400, 5_000].map(at)).toEqual([
    `${size} that has not begun to learn: what it writes is noise.`,
    `${size} in training, after 200 of 5,000 steps: it has only begun to learn, and writes mostly noise.`,
    `${size} in training, after 400 of 5,000 steps. It makes things up.`,
    `${size} that browsers have trained together. It makes things up.`,
  ]);
  expect([0, 5_000].map((committedSteps) => modelSentence({ ...FACTS, committedSteps, wasTrained: true }))).toEqual([
    `${size} being fine-tuned, after 0 of 5,000 steps. It makes things up.`,
    `${size} that browsers have fine-tuned together. It makes things up.`,
  ]);
});

test('where an answer is from', () => {
  expect(originSentence({ fromStep: 1_200, toStep: 1_200, donors: 0 }, 0.25)).toBe(
    'From step 1,200, by the server, in 0.3 s.',
  );
  expect(originSentence({ fromStep: 3, toStep: 5, donors: 1 }, 12.4)).toBe(
    'From steps 3 to 5, by one donor’s GPU, in 12 s.',
  );
  expect(originSentence({ fromStep: 3, toStep: 3, donors: 4 }, 2)).toBe('From step 3, by 4 donors’ GPUs, in 2.0 s.');
});

describe('why there is no answer', () => {
  const NONE: AnswerFailure = { status: 500, code: null, type: null, message: '', retrySeconds: null };
  const said = (failure: Partial<AnswerFailure>, step: number | null = null, reads: TalkFacts['reads'] = 'text') =>
    failureSentence({ ...NONE, ...failure }, step, reads);

  it.each([
    [{ status: 0 }, 'The server does not answer.'],
    [{ status: 429, type: 'requests', retrySeconds: 5 }, 'Others are asking, too. Try again in 5 s.'],
    [{ status: 429, type: 'tokens', retrySeconds: 1_200 }, /as much as one may in an hour. Try again in 20 min\./],
    [{ status: 400, code: 'context_length_exceeded' }, 'This text is too long for the model. Shorten it.'],
    [{ status: 403, code: 'api_off' }, 'Whoever runs this server lets nobody talk to its model.'],
    [{ status: 400, code: 'model_too_large' }, /^No donor can answer right now, and for the server alone/],
    [{ status: 503, message: 'no donor' }, 'No donor can answer right now. Try again in a minute.'],
    [{ status: 500, message: 'it ended' }, 'The answer broke off. Ask again.'],
    [{ status: 403, message: 'This run is by invitation. Ask.' }, 'This run is by invitation. Ask.'],
    [{ status: 400, message: 'prompt has no tokens' }, 'Refused: prompt has no tokens.'],
  ])('%o', (failure, sentence) => {
    expect(said(failure)).toMatch(sentence);
  });

  it('of older states and of conversations in their own words', () => {
    expect(said({ status: 404, code: 'model_not_found' }, 300)).toBe('It is gone by now.');
    expect(said({ status: 400, code: 'model_too_large' }, 300)).toMatch(/^The model is too large for the server/);
    expect(said({ status: 400, code: 'context_length_exceeded' }, null, 'turns')).toMatch(/Begin anew\.$/);
  });
});

describe('what is read out', () => {
  it('is whole sentences and lines; the rest waits', () => {
    expect(spokenPieces('“Aye!” said he. And so\n\non it')).toEqual({
      ...{ pieces: ['“Aye!” ', 'said he. ', 'And so\n\n'], rest: 'on it' },
    });
    expect(spokenPieces('Mr. X. ')).toEqual({ pieces: ['Mr. '], rest: 'X. ' });
  });

  it('is a long piece where no sentence ends', () => {
    const text = 'word '.repeat(30);
    const { pieces, rest } = spokenPieces(text);
    // The first end of a word behind 120 characters.
    expect([pieces, rest]).toEqual([['word '.repeat(25)], 'word '.repeat(5)]);
  });

  it('stays as it is while the text grows, and is the whole text', () => {
    const text = `It was. ${'the sea and the ship and '.repeat(9)}!\nThen, "No." and… so. On`;
    let before: readonly string[] = [];
    for (let length = 0; length <= text.length; length++) {
      const { pieces, rest } = spokenPieces(text.slice(0, length));
      expect(pieces.join('') + rest).toBe(text.slice(0, length));
      expect(pieces.slice(0, before.length)).toEqual(before);
      before = pieces;
    }
    expect(before.length).toBeGreaterThan(4);
  });
});
