import { describe, expect, it } from 'vitest';
import { script } from '../testing/script.ts';
import { snapshot } from './snapshot.ts';

describe('snapshot', () => {
  it('shows who computes what, who waits, and who rests', () => {
    const swarm = script({ layers: 2, expectedDonors: 2 });
    swarm.join('a');
    expect(snapshot(swarm.run.state, 0)).toMatchObject({ phase: 'waiting', donors: [{ state: 'joining' }] });
    swarm.join('b', 'c', 'd');
    swarm.say('d', { type: 'pause' });
    swarm.settle('b ready');
    expect(snapshot(swarm.run.state, 0)).toMatchObject({
      phase: 'preparing',
      sentence: 'Waiting for 1 donor to get ready for step 1.',
      donors: [
        { peer: 'a', state: 'computing', stages: [{ stage: 0, layers: [0, 1] }] },
        { peer: 'b', state: 'joining', stages: [{ stage: 1, layers: [1, 2] }] },
        { peer: 'c', state: 'spare', stages: [] },
        { peer: 'd', state: 'paused', stages: [] },
      ],
    });
  });

  it('groups the digits of a long run’s steps', () => {
    const swarm = script({ steps: 4_000 });
    swarm.join('a');
    swarm.settle('a report');
    expect(snapshot(swarm.run.state, 0).sentence).toBe('1 donor is training step 1 of 4,000.');
  });

  it('is announced when it shows something new, and not with each report', () => {
    const swarm = script({ expectedDonors: 2 });
    const announced = () => swarm.published();
    swarm.join('a', 'b');
    swarm.settle('* report');
    announced();
    swarm.settleOne();
    expect(announced()).toBe(0);
    swarm.settleOne();
    expect(announced()).toBe(1);
    swarm.operator('pause');
    expect(announced()).toBe(1);
  });

  it('says that the run will pause, and that it does', () => {
    const swarm = script({});
    swarm.join('a');
    swarm.settle('a report');
    swarm.operator('pause');
    expect(snapshot(swarm.run.state, 0).sentence).toBe('1 donor is training step 1 of 6. Then the run pauses.');
    swarm.settle();
    expect(snapshot(swarm.run.state, 0).sentence).toBe('Paused by the operator after 1 step.');
    expect(snapshot(swarm.run.state, 0)).not.toHaveProperty('isStopped');
    swarm.operator('stop');
    expect(snapshot(swarm.run.state, 0)).toMatchObject({ phase: 'paused', isStopped: true });
  });

  it('shows no loss of steps that were given up', () => {
    const swarm = script({});
    swarm.join('a');
    swarm.settle('a report');
    swarm.settleOne();
    expect(snapshot(swarm.run.state, 0).loss).toBeGreaterThan(0);
    swarm.gone('a');
    swarm.join('b');
    expect(snapshot(swarm.run.state, 0)).toMatchObject({ committedSteps: 0, loss: null });
  });

  it('shows the speed of the last steps, which sinks while a step takes longer', () => {
    const swarm = script({});
    swarm.join('a');
    swarm.settle('a report');
    expect(snapshot(swarm.run.state, 1_000).tokensPerSecond).toBe(null);
    for (let step = 0; step < 2; step++) {
      swarm.pass(2_000);
      swarm.settleOne();
    }
    const now = 5_000;
    expect(snapshot(swarm.run.state, now).tokensPerSecond).toBe(30 / 2);
    expect(snapshot(swarm.run.state, now + 2_000).tokensPerSecond).toBe(30 / 2);
    expect(snapshot(swarm.run.state, now + 6_000).tokensPerSecond).toBe(60 / 8);
  });
});
