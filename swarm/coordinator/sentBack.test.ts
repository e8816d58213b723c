import { describe, expect, it } from 'vitest';
import { script } from '../testing/script.ts';
import { snapshot } from './snapshot.ts';

const tokensOf = (swarm: ReturnType<typeof script>) => snapshot(swarm.run.state, 0).donors.map(({ tokens }) => tokens);

/** Trained by one donor until so many steps stand committed. */
function trained(steps: number) {
  const swarm = script({ steps: 8, checkpointEverySteps: 2 });
  swarm.join('a');
  swarm.settleOne(); // ready
  for (let step = 0; step < steps; step++) while (swarm.run.store.commits.length <= step) swarm.settleOne();
  return swarm;
}

describe('a run that is sent back', () => {
  it('gives up the step under way, and goes on from the checkpoint', () => {
    const swarm = trained(5);
    const [all = 0] = tokensOf(swarm);
    swarm.trace();
    swarm.sendBack(2, { name: 'a', tokens: all / 5 });
    const reason = 'the operator sent the run back to checkpoint 2';
    expect(swarm.trace()).toEqual([
      'a < abandon e1',
      `roll back 5 to 2: ${reason}`,
      `epoch 2 a: ${reason}`,
      'a < prepare e2 step 2 loaded',
    ]);
    expect(tokensOf(swarm)).toEqual([(2 * all) / 5]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.commits.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('stays paused where it was paused', () => {
    const swarm = trained(3);
    swarm.operator('pause');
    swarm.settle();
    const { length } = swarm.run.store.commits;
    swarm.sendBack(2, { name: 'a', tokens: 0 });
    expect(length).toBeGreaterThan(2);
    expect(snapshot(swarm.run.state, 0)).toMatchObject({ phase: 'paused', committedSteps: 2 });
    swarm.operator('resume');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('begins again when it was finished', () => {
    const swarm = trained(2);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    swarm.sendBack(4, { name: 'a', tokens: 0 });
    expect(snapshot(swarm.run.state, 0)).toMatchObject({ phase: 'preparing', committedSteps: 4 });
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('is not sent forward', () => {
    const swarm = trained(3);
    swarm.trace();
    swarm.sendBack(3, { name: 'a', tokens: 0 });
    expect(swarm.trace()).toEqual([]);
  });
});
