import { describe, expect, it } from 'vitest';
import { islandsOf } from '../testing/islands.ts';
import { script } from '../testing/script.ts';
import { snapshot } from './snapshot.ts';

/** A checkpoint is wanted every 3 steps: with rounds of 4 that is every round. */
const swarmOf = () =>
  script({
    ...{ steps: 10, islands: islandsOf(2, 2), checkpointEverySteps: 3 },
    ...{ evaluation: { everySteps: 5, windows: 4 }, lanes: 2 },
    train: {
      ...{ steps: 10, islands: islandsOf(2, 2), schedule: { type: 'constant', warmupSteps: 19 } },
      optimizer: { type: 'adamw', learningRate: 1, betas: [0.9, 0.99], epsilon: 1e-8, weightDecay: 0 },
    },
  });

const matching = (lines: readonly string[], what: RegExp): string[] => lines.filter((line) => what.test(line));

describe('a run with islands', () => {
  it('[IS2] [IS11] has the learning rates of its numbers; saves and evaluates at meetings alone', () => {
    const swarm = swarmOf();
    swarm.join('a');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    const trace = swarm.trace();
    expect(matching(trace, /^checkpoint/)).toEqual(['checkpoint 4', 'checkpoint 8', 'checkpoint 10']);
    // Every 5 steps are, in whole rounds, every 8.
    expect(matching(trace, /^evaluation/)).toEqual(['evaluation 0', 'evaluation 8', 'evaluation 10']);
    // In warm-up step s has (s + 1) / 20: so each says its number.
    const numbers = swarm.run.store.commits.map((record) => Math.round(record.learningRate * 20) - 1);
    expect(numbers).toEqual([0, 2, 1, 3, 4, 6, 5, 7, 8, 9]);
  });

  it('its snapshot says who computes which island, and how far each is', () => {
    const swarm = swarmOf();
    swarm.join('a', 'b');
    while (swarm.run.state.committedSteps < 7) swarm.settleOne();
    expect(snapshot(swarm.run.state, 0).groups).toEqual([
      {
        ...{ donors: ['a', 'b'], round: 1, active: 1 },
        islands: [
          { number: 0, innerStep: 2, innerSteps: 2 },
          { number: 1, innerStep: 1, innerSteps: 2 },
        ],
      },
    ]);
  });

  it('[IS11] a pause in the middle of a round comes at its meeting', () => {
    const swarm = swarmOf();
    swarm.join('a');
    while (swarm.run.state.committedSteps < 5) swarm.settleOne();
    swarm.operator('pause');
    expect(snapshot(swarm.run.state, 0).sentence).toBe(
      '1 donor is training step 6 of 10. At the next meeting the run pauses.',
    );
    swarm.trace();
    swarm.settle();
    expect(swarm.run.state.phase.name).toBe('paused');
    expect(matching(swarm.trace(), /^(commit|checkpoint|roll)/)).toEqual([
      ...['commit 5', 'commit 6', 'commit 7', 'checkpoint 8'],
    ]);
  });

  it('[IS11] a loss without copies goes back to the meeting that is saved', () => {
    const swarm = swarmOf();
    swarm.join('a', 'b');
    while (swarm.run.state.committedSteps < 7) swarm.settleOne();
    swarm.trace();
    swarm.gone('b');
    swarm.settle();
    expect(matching(swarm.trace(), /^roll/)[0]).toMatch(/^roll back 7 to 4: /);
    expect(swarm.run.ended).toBe('finished');
  });

  it('[IS11] who joins in the middle of a round takes part from the next step on', () => {
    const swarm = swarmOf();
    swarm.join('a');
    while (swarm.run.state.committedSteps < 5) swarm.settleOne();
    swarm.join('b');
    swarm.trace();
    swarm.settleOne();
    expect(matching(swarm.trace(), /^(epoch|commit|b a <|a b <)/)).toContain('epoch 2 a b: b joins');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });
});
