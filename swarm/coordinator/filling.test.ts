import { describe, expect, it } from 'vitest';
import { script } from '../testing/script.ts';

/** `a` trains; then `b` comes, which needs more than may move at a boundary. */
function joining(config: Parameters<typeof script>[0] = {}) {
  const swarm = script({ layers: 3, steps: 40, lateBytes: 0, ...config });
  swarm.join('a');
  swarm.settle('a report');
  swarm.settleOne();
  swarm.trace();
  swarm.join('b');
  return swarm;
}

type Swarm = ReturnType<typeof script>;
const epochs = (swarm: Swarm): string[] => swarm.trace().filter((line) => line.startsWith('epoch'));
const steps = (swarm: Swarm, count: number, ...withhold: string[]): void => {
  const { committedSteps } = swarm.run.state;
  while (swarm.run.state.committedSteps < committedSteps + count) swarm.settleOne(...withhold);
};
const filling = ({ run }: Swarm) => ('inForce' in run.state.phase ? run.state.phase.inForce.filling : null);

describe('copies that are made beside the steps', () => {
  it('[RE55] a newcomer is a keeper first, is sent a part with each of at most four steps, and takes its place a step after the last one', () => {
    const swarm = joining();
    steps(swarm, 1);
    expect(epochs(swarm)).toEqual(['epoch 2 a b: b joins: copies first']);
    const all = (filling(swarm)?.late.length ?? 0) * 3;
    const sent: number[] = [];
    while (filling(swarm) !== null) {
      steps(swarm, 1);
      sent.push(filling(swarm)?.sent ?? all);
    }
    // The first step was begun with the first of them.
    expect(sent).toEqual(sent.map((_, step) => Math.min(all, (step + 2) * Math.ceil(all / 4))));
    expect(sent.length).toBeLessThan(5);
    expect(epochs(swarm)).toEqual(['epoch 3 a b: b joins']);
    swarm.settle();
    expect(swarm.run).toMatchObject({ ended: 'finished', store: { generation: 0 } });
  });

  it('[RE55] what is small moves at the boundary, as does what a leaver hands over', () => {
    const small = joining({ lateBytes: 1_000_000 });
    steps(small, 1);
    expect(epochs(small)).toEqual(['epoch 2 a b: b joins']);
  });

  it('[RE55] where steps wait for the newcomer they go on while its copies are made', () => {
    const swarm = script({ layers: 3, steps: 40, lateBytes: 0 });
    swarm.join('a');
    swarm.settle('a report');
    swarm.hold('everyStep');
    swarm.settle();
    swarm.join('b');
    swarm.settle();
    swarm.hold('none');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('[RE56] no step is committed before its keeper reported, though its word is not needed; one that does not is replaced', () => {
    const swarm = joining();
    steps(swarm, 1);
    swarm.trace();
    swarm.settle('b report');
    expect(swarm.trace().filter((line) => line.startsWith('commit'))).toEqual([]);
    swarm.expire();
    expect(swarm.trace()).toContainEqual(expect.stringMatching(/^commit/));
  });

  it('[RE56] who is lost meanwhile costs no step, and nothing is asked of what it was sent', () => {
    const swarm = joining();
    steps(swarm, 2);
    swarm.gone('b');
    swarm.settle();
    expect(swarm.run).toMatchObject({ ended: 'finished', store: { generation: 0 } });
  });

  it('[RE56] a server that comes back takes no copy for whole that was being made', () => {
    const swarm = joining();
    steps(swarm, 2);
    const { committedSteps: step } = swarm.run.state;
    const role = { epoch: 2, step };
    swarm.restart();
    swarm.trace();
    swarm.join('b');
    swarm.say('b', { type: 'resumed', generation: 0, role, handedOver: null });
    for (let wait = 0; wait < 4; wait++) {
      swarm.pass(20_000);
      swarm.tick();
    }
    expect(swarm.trace()[0]).toMatch(/^roll back/);
  });
});
