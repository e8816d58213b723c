import { describe, expect, it } from 'vitest';
import { refusal } from '../base.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { script } from '../testing/script.ts';

describe('the donors that are expected', () => {
  it('starts with fewer donors once nobody waits for the others any more', () => {
    const swarm = script({ steps: 2, expectedDonors: 3 });
    swarm.gatheringEnded();
    expect(swarm.run.state.phase.name).toBe('waiting');
    const other = script({ steps: 2, expectedDonors: 3 });
    other.join('a', 'b');
    expect(other.trace()).toEqual([]);
    other.gatheringEnded();
    expect(other.trace()[0]).toEqual('epoch 1 a b: enough donors are here');
    swarm.join('a');
    expect(swarm.trace()[0]).toEqual('epoch 1 a: enough donors are here');
  });

  it('waits for the expected donors once, and goes on with fewer later', () => {
    const swarm = script({ expectedDonors: 2 });
    swarm.join('a');
    expect(swarm.trace()).toEqual([]);
    expect(swarm.run.state.phase).toEqual({ name: 'waiting', lack: { of: 'donors', here: 1, expected: 2 } });
    swarm.join('b');
    swarm.gone('b');
    expect(swarm.trace().slice(-3)).toEqual(['a < abandon e1', 'epoch 2 a: b is gone', 'a < prepare e2 step 0 loaded']);
  });

  it('every expected donor computes, or none does; once one is lost fewer will do', () => {
    const planned = (expectedDonors: number | null) => {
      const swarm = script({ steps: 9, expectedDonors });
      swarm.join('a', 'b');
      swarm.trace();
      swarm.joinGiving(1, 'c');
      return swarm;
    };
    expect(planned(null).trace()).toEqual(['c < standby spare']);
    const swarm = planned(3);
    expect(swarm.run.state.phase).toEqual({
      name: 'waiting',
      lack: { of: 'plan', reason: 'c gives too little' },
    });
    swarm.gone('b');
    expect(swarm.trace()[0]).toEqual('epoch 1 a: enough donors are here');
  });

  it('a newcomer who does not fit never takes the place of one that was expected', () => {
    const terms = rehearsalTerms({ steps: 9, expectedDonors: 2 });
    const two: typeof terms.makePlan = (peers, caps) =>
      peers.length > 2 ? refusal('two are enough') : terms.makePlan(peers, caps);
    const swarm = script({}, { ...terms, makePlan: two });
    swarm.joinGiving(5, 'a');
    swarm.join('b', 'c');
    swarm.operator('pause');
    swarm.trace();
    swarm.operator('resume');
    expect(swarm.trace()).toContain('epoch 2 a b: the operator resumed the run');
  });
});
