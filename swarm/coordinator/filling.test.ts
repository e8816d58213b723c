import { describe, expect, it } from 'vitest';
import { invariant, type PeerId, success } from '../base.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
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

  it('[CO71] where the next plan leaves one out who was not told to get ready, copies first are no short hand-over', () => {
    const terms = rehearsalTerms({ layers: 3, steps: 40, lateBytes: 0 });
    const makePlan: typeof terms.makePlan = (peers, ...rest) =>
      terms.makePlan(peers.length < 3 ? peers : peers.filter((peer) => peer !== 'b'), ...rest);
    const swarm = script({}, { ...terms, makePlan });
    for (const name of ['a', 'b']) {
      swarm.join(name);
      steps(swarm, 8);
    }
    swarm.trace();
    swarm.join('c');
    const plan = makePlan(['a', 'b', 'c'].map(swarm.peer), new Map());
    invariant(plan.ok, 'it can be split');
    swarm.answer({ answer: 'plan', plan: plan.value, reason: 'c is faster' });
    while (swarm.run.state.phase.name !== 'preparing') swarm.settleOne();
    expect(epochs(swarm)).toEqual(['epoch 4 a b c: c is faster: copies first']);
    // What getting ready takes at least in the table of deadlines.
    const { phase } = swarm.run.state;
    expect(phase.name === 'preparing' && phase.deadline - phase.startedAt).toBe(60_000);
    swarm.settle();
    expect(swarm.run).toMatchObject({ ended: 'finished', store: { generation: 0 } });
  });
});

describe('a copy that is made beside the steps and cannot be', () => {
  /** `a` computes, `b` and then `c` keep copies; `c` says that what `a` sends it is not finite. */
  const blaming = () => {
    const terms = rehearsalTerms({ layers: 3, steps: 40, lateBytes: 0 });
    const makePlan: typeof terms.makePlan = ([first, ...replicas]: readonly PeerId[], ...rest) => {
      const plan = terms.makePlan(first === undefined ? [] : [first], ...rest);
      if (!plan.ok) return plan;
      const copied = ({ block, shards }: (typeof plan.value.state)[number]) => ({
        block,
        shards: shards.map((shard) => ({ ...shard, replicas })),
      });
      return success({ ...plan.value, state: plan.value.state.map(copied) });
    };
    const swarm = script({}, { ...terms, makePlan });
    for (const name of ['a', 'b', 'c']) {
      swarm.join(name);
      if (name !== 'c') steps(swarm, 8);
    }
    const about = swarm.peer('a');
    const blame = (isSeen = false): string[] => {
      const isSent = () => filling(swarm)?.late.some(({ from, to }) => from === 'a' && to === 'c') ?? false;
      while (swarm.run.state.phase.name !== 'training' || !isSent()) swarm.settleOne();
      if (isSeen) swarm.saw('a', 'c');
      swarm.trace();
      swarm.say('c', { type: 'fault', epoch: swarm.run.state.epoch, reason: 'badFrame', detail: 'd', about });
      return swarm.trace().filter((line) => line.startsWith('refuse'));
    };
    return { swarm, blame };
  };

  it('[CO36] is the pair’s fault: it goes through the server, and who was seen to give it goes', () => {
    const { swarm, blame } = blaming();
    expect(blame()).toEqual([]);
    expect(swarm.run.state.relayed).toHaveLength(1);
    expect(blame(true)).toEqual(['refuse a faulty']);
    swarm.settle();
    expect(swarm.run).toMatchObject({ ended: 'finished', store: { generation: 0 } });
  });

  it('[CO36] is the fault of who says so where the server saw nothing', () => {
    const { swarm, blame } = blaming();
    for (let time = 0; time < 3; time++) expect(blame()).toEqual([]);
    expect(blame()).toEqual(['refuse c faulty']);
    swarm.settle();
    expect(swarm.run).toMatchObject({ ended: 'finished', store: { generation: 0 } });
  });
});
