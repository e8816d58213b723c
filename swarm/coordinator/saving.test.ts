/** Who goes when what follows a commit is held up, by what heartbeats say: nothing committed is given up. */
import { describe, expect, it } from 'vitest';
import { success } from '../base.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { ringReplicas } from '../testing/ringReplicas.ts';
import { type Script, script } from '../testing/script.ts';
import { heldOutTensors, inRound } from '../ways/tensors.ts';
import { passageText } from '../ways/wentBy.ts';

/** With a copy of everything. */
function replicated(part: Parameters<typeof rehearsalTerms>[0]) {
  const terms = rehearsalTerms(part);
  const makePlan: typeof terms.makePlan = (offer, caps) => {
    const plan = terms.makePlan(offer, caps);
    return plan.ok ? success(ringReplicas(plan.value, 1)) : plan;
  };
  return script({}, { ...terms, makePlan });
}

/** What it says each second: for whom it waits; whether it is seen to upload, or says that it gets on; whether its part is done. */
type Word = readonly [name: string, waitsFor: readonly string[], isBusy?: boolean, isDone?: boolean];
/** Two copies of everything, all steps committed: who says what while the end is saved, each second until somebody goes. */
function saving(...words: readonly Word[]) {
  const swarm = replicated({ expectedDonors: 3, steps: 1 });
  swarm.join('a', 'b', 'c');
  swarm.settle('* uploaded');
  swarm.trace();
  expect(swarm.run.state.phase.name).toBe('saving');
  for (let second = 0; second < 9; second++) {
    swarm.pass(1_000);
    for (const [name, waitsFor, isBusy = false] of words) {
      const at = { epoch: 1, step: 0, done: 9, waitsFor: waitsFor.map((one) => swarm.peer(one)), hasReported: true };
      swarm.say(name, { type: 'heartbeat', at });
      if (isBusy) swarm.uploading(name);
    }
    swarm.tick();
  }
  return swarm;
}

it('[CO76] who holds up the end of the last step goes after 7 s, with those who wait for it kept, and no step is given up', () => {
  const swarm = saving(['a', []], ['b', ['a']], ['c', []]);
  expect(swarm.trace()[0]).toBe('refuse a tooLate');
  expect(swarm.run.state.committedSteps).toBe(1);
  expect(swarm.run.state.donors.map(({ peer }) => String(peer))).toEqual(['b', 'c']);
});

const STAY: readonly (readonly [what: string, words: readonly Word[]])[] = [
  [
    'is waited for by nobody',
    [
      ['a', []],
      ['b', []],
      ['c', []],
    ],
  ],
  [
    'waits for another',
    [
      ['a', ['b']],
      ['b', ['a']],
      ['c', []],
    ],
  ],
  [
    'has an upload that is seen to come',
    [
      ['a', [], true],
      ['b', ['a']],
      ['c', []],
    ],
  ],
];
it.each(STAY)('[CO76] not who %s', (_what, words) => {
  const swarm = saving(...words);
  expect(swarm.trace()).toEqual([]);
  expect(swarm.run.state.donors).toHaveLength(3);
});

it('[CO76] when the time for uploads is over, who waits for another late one stays', () => {
  const swarm = saving(['a', ['b']], ['b', ['c']], ['c', [], true]);
  expect(swarm.trace()).toEqual([]);
  swarm.expire();
  expect(swarm.trace()[0]).toBe('refuse c tooLate');
  expect(swarm.run.state.donors.map(({ peer }) => String(peer))).toEqual(['a', 'b']);
});

it.each<readonly [what: string, isBusy: boolean, speaking: string, refused: readonly string[]]>([
  ['sends nothing of its part', false, 'c', ['refuse c tooLate']],
  ['says nothing either, where others do', false, 'ab', ['refuse c tooLate']],
  ['has an upload that is seen to come', true, 'c', []],
  ['says nothing where others do, and has an upload that is seen to come', true, 'ab', []],
])('[CO76] of the last checkpoint only one part is missing: who %s', (_what, isBusy, speaking, refused) => {
  const swarm = replicated({ expectedDonors: 3, steps: 1 });
  swarm.join('a', 'b', 'c');
  swarm.settle('c uploaded');
  swarm.trace();
  for (let second = 0; second < 12; second++) {
    swarm.pass(1_000);
    const at = { epoch: 1, step: 0, done: 9, waitsFor: [], hasReported: true };
    for (const name of speaking) swarm.say(name, { type: 'heartbeat', at });
    if (isBusy) swarm.uploading('c');
    swarm.tick();
  }
  expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual(refused);
  swarm.settle();
  expect(swarm.run.ended).toBe('finished');
  expect(swarm.run.store.commits).toHaveLength(1);
});

/** Three stages, the last one's answer is missing: who says what while the held-out text is read. */
function evaluating(...words: readonly Word[]) {
  const swarm = replicated({ expectedDonors: 3, steps: 2, evaluation: { everySteps: 1, windows: 8 } });
  swarm.join('a', 'b', 'c');
  for (let step = 0; swarm.run.state.committedSteps < 1 && step < 40; step++) swarm.settleOne();
  swarm.settle('* evaluated');
  expect(swarm.run.state.phase.name).toBe('evaluating');
  swarm.trace();
  for (let second = 0; second < 9; second++) {
    swarm.pass(1_000);
    for (const [name, waitsFor, isBusy = false, isDone = true] of words) {
      const awaited = waitsFor.map((one) => swarm.peer(one));
      const at = {
        epoch: swarm.run.state.epoch,
        step: 0,
        done: isBusy ? second : 9,
        waitsFor: awaited,
        hasReported: true,
        ...(isDone && { hasEvaluated: true as const }),
      };
      swarm.say(name, { type: 'heartbeat', at });
    }
    swarm.tick();
  }
  return swarm;
}

it.each<readonly [what: string, goes: string, words: readonly Word[]]>([
  [
    'owes its answer, and does nothing',
    'c',
    [
      ['a', [], true],
      ['b', []],
      ['c', []],
    ],
  ],
  [
    'says nothing, where others do,',
    'c',
    [
      ['a', []],
      ['b', []],
    ],
  ],
  [
    'does nothing, and says that it is not done,',
    'a',
    [
      ['a', [], false, false],
      ['b', ['a']],
      ['c', ['b']],
    ],
  ],
])('[CO76] who %s goes', (_what, goes, words) => {
  const swarm = evaluating(...words);
  expect(swarm.trace()[0]).toBe(`refuse ${goes} tooLate`);
  expect(swarm.run.state.committedSteps).toBe(1);
});

it('[CO94] nobody is refused where all wait for each other: what they send goes through the server, then one rests', () => {
  const swarm = evaluating(['a', ['c']], ['b', ['a']], ['c', ['b']]);
  let hasRested = false;
  for (let time = 0; time < 4 && !hasRested; time++) {
    swarm.settle('* evaluated');
    const { epoch } = swarm.run.state;
    swarm.pass(2_000);
    for (const [name = '', other = ''] of ['ac', 'ba', 'cb']) {
      const at = { epoch, step: 0, done: time, waitsFor: [swarm.peer(other)], hasReported: true };
      swarm.say(name, { type: 'heartbeat', at });
    }
    swarm.expire();
    hasRested = swarm.logs().some((text) => text.includes('rests for a minute'));
  }
  expect(hasRested).toBe(true);
  expect(swarm.run.state.donors).toHaveLength(3);
  expect(swarm.run.state.relayed.length).toBeGreaterThan(0);
  swarm.settle();
  expect(swarm.run.ended).toBe('finished');
});

it('[CO76] nobody where who owes its answer has something to do', () => {
  const swarm = evaluating(['a', []], ['b', []], ['c', [], true]);
  expect(swarm.trace()).toEqual([]);
  expect(swarm.run.state.donors).toHaveLength(3);
});

describe('[CO76] a word that one waits for another, which says that it is done,', () => {
  const words: readonly Word[] = [
    ['a', []],
    ['b', ['a']],
    ['c', ['b']],
  ];
  /** After the same words again, and what the server saw go by meanwhile. */
  const again = (whole: (swarm: Script) => readonly string[]): Script => {
    const swarm = evaluating(...words);
    expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual([]);
    expect(swarm.run.state.relayed.map((pair) => pair.map(String))).toEqual([['b', 'a']]);
    swarm.settle('* evaluated');
    swarm.trace();
    swarm.pass(8_000);
    swarm.relaySaw({ whole: whole(swarm), moved: 1 });
    for (let second = 0; second < 10; second++) {
      swarm.pass(1_000);
      for (const [name, waitsFor] of words) {
        const at = {
          ...{ epoch: swarm.run.state.epoch, step: 0, done: 9 },
          waitsFor: waitsFor.map((one) => swarm.peer(one)),
        };
        swarm.say(name, { type: 'heartbeat', at: { ...at, hasReported: true, hasEvaluated: true } });
      }
      swarm.tick();
      swarm.relaySaw({ whole: whole(swarm), moved: 1 });
    }
    return swarm;
  };
  /** All that the first stage sends in the evaluation after one step: three rounds of three samples. */
  const fromFirst = ({ run }: Script): string[] => {
    const { config } = run.state;
    if (run.store.plan === null) return [];
    const size = { sequence: config.batch.sequence, wire: config.wire };
    const sent = heldOutTensors(acceptedModel(config), run.store.plan, size).filter(({ from }) => from === 'a');
    return [0, 1, 2].flatMap((round) =>
      sent.map(({ from, to, tensor }) => passageText(1, from, to, inRound(tensor, round))),
    );
  };

  it('costs that one nothing where what it sent went by: who says so goes', () => {
    const swarm = again(fromFirst);
    expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual(['refuse b tooLate']);
    swarm.settle();
    expect([swarm.run.ended, swarm.run.state.donors.length]).toEqual(['finished', 2]);
  });

  it('costs it its place where nothing went by', () => {
    const swarm = again(() => []);
    expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual(['refuse a tooLate']);
  });
});

it('[CO76] who says that it waits for itself, or for who has no part, waits for nobody', () => {
  for (const lie of ['c', 'stranger']) {
    const swarm = replicated({ expectedDonors: 3, steps: 40 });
    swarm.join('a', 'b', 'c');
    for (let word = 0; swarm.run.state.committedSteps < 3 && word < 200; word++) swarm.settleOne();
    swarm.settle('* report');
    swarm.trace();
    for (let second = 0; second < 12; second++) {
      swarm.pass(1_000);
      for (const [name, waitsFor] of [
        ['a', 'b'],
        ['b', 'c'],
        ['c', lie],
      ] as const) {
        const { epoch, committedSteps: step } = swarm.run.state;
        const at = { epoch, step, done: 1, waitsFor: [swarm.peer(waitsFor)], hasReported: false };
        swarm.say(name, { type: 'heartbeat', at });
      }
      swarm.tick();
    }
    expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual(['refuse c tooLate']);
  }
});
