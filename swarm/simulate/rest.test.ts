import { describe, expect, it } from 'vitest';
import { peerId } from '../base.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { formatAction } from '../schedule/action.ts';
import { build } from '../schedule/lower.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import type { Costs } from './clock.ts';
import { simulate } from './simulate.ts';

const [A, B] = [peerId('a'), peerId('b')];
const model = outlineModel(2, false);

/** Forward 4, backward 8 seconds; a rests three quarters of each; a message takes a second. */
const costs = (rest: number, slackSeconds: number, rested: number): Costs => ({
  forwardSeconds: () => 4,
  backwardSeconds: () => 8,
  rest: {
    seconds: (peer, seconds) => (peer === A ? rest * seconds : 0),
    slackSeconds,
    restedSeconds: () => rested,
  },
  link: () => ({ latencySeconds: 1, bytesPerSecond: null }),
  activationBytes: () => 0,
  gradientBytes: () => 0,
});

const run = (rest: number, slackSeconds = 0, rested = 0): string[] => {
  const plan = equalSplit(model, 2, [A, B], { microBatches: 2, schedule: '1f1b' });
  return simulate(model, plan, build(plan), costs(rest, slackSeconds, rested)).map(
    ({ action, startSeconds, endSeconds }) => `${formatAction(action)} ${startSeconds}-${endSeconds}`,
  );
};

describe('a peer that gives a share of its time', () => {
  it('has its outcome leave before it rests, and is free after it', () => {
    expect(run(0.75)).toEqual([
      '0F0 0-4',
      '1F0 2-6',
      '0F1 4-8',
      '1B0 6-14',
      '1F1 14-18',
      '0B0 15-23',
      '1B1 18-26',
      '0B1 27-35',
    ]);
  });

  it('without a rest hands on when it ends', () => {
    expect(run(0)).toEqual([
      '0F0 0-4',
      '0F1 4-8',
      '1F0 5-9',
      '1B0 9-17',
      '1F1 17-21',
      '0B0 18-26',
      '1B1 21-29',
      '0B1 30-38',
    ]);
  });

  it('that waited rests so much less, up to its slack', () => {
    // Rested at 8 from its forwards, it waits until 15: of these 7 s, 3 are caught up on.
    expect(run(0.75, 3)).toEqual([
      '0F0 0-4',
      '1F0 2-6',
      '0F1 4-8',
      '1B0 6-14',
      '1F1 14-18',
      '0B0 15-20',
      '1B1 18-26',
      '0B1 27-32',
    ]);
  });

  it('begins a step as rested as the wait for its commit left it', () => {
    expect(run(0.75, 3, -2).slice(0, 3)).toEqual(['0F0 0-2', '0F1 2-6', '1F0 2-6']);
  });

  it('never works faster than without a share', () => {
    expect(run(0.75, 100, -100).filter((line) => line.startsWith('0'))).toEqual([
      '0F0 0-1',
      '0F1 1-2',
      '0B0 15-17',
      '0B1 27-29',
    ]);
  });
});
