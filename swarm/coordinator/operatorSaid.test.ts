import { describe, expect, it } from 'vitest';
import { script } from '../testing/script.ts';

describe('an operator who steers', () => {
  it('pauses after the commit and its checkpoint, and resumes without a roll-back', () => {
    const swarm = script({ steps: 3 });
    swarm.join('a');
    swarm.settle('a report');
    swarm.operator('pause');
    swarm.trace();
    swarm.settle();
    expect(swarm.trace()).toEqual(['commit 0', 'a < committed e1 step 0 checkpoint', 'checkpoint 1', 'a < abandon e1']);
    expect(swarm.run.state.phase.name).toBe('paused');
    swarm.join('b');
    expect(swarm.trace()).toEqual([]);
    swarm.operator('start');
    expect(swarm.trace()).toEqual([
      'paused false',
      'epoch 2 a b: the operator started the run',
      'a b < prepare e2 step 1 loaded',
    ]);
  });

  it('a pause survives a restart', () => {
    const swarm = script({});
    swarm.operator('pause');
    swarm.restart();
    swarm.join('a');
    expect(swarm.trace()).toEqual(['paused true']);
    expect(swarm.run.state.phase.name).toBe('paused');
  });

  it('stops where everything is saved, and at once where no step is in progress', () => {
    const swarm = script({ steps: 3 });
    swarm.join('a');
    swarm.settle('a report');
    swarm.operator('stop');
    expect(swarm.run.ended).toBe(null);
    swarm.settle();
    expect(swarm.trace().slice(-3)).toEqual(['checkpoint 1', 'a < abandon e1', 'stopped']);
    swarm.join('b');
    expect(swarm.trace()).toEqual([]);

    for (const command of ['pause', 'resume'] as const) {
      const idle = script({});
      idle.operator(command);
      idle.operator('stop');
      expect(idle.run.ended).toBe('stopped');
    }
  });

  it('once stopped, shows who comes and goes, and who leaves is let go at once', () => {
    const swarm = script({});
    swarm.join('a');
    swarm.operator('stop');
    const here = () => swarm.run.state.donors.map(({ peer }) => String(peer));
    swarm.join('b');
    swarm.join('c');
    expect(here()).toEqual(['a', 'b', 'c']);
    swarm.gone('b');
    swarm.trace();
    swarm.say('a', { type: 'leave' });
    expect(swarm.trace()).toEqual(['a < standby left']);
    expect(here()).toEqual(['c']);
    expect(swarm.run.state.phase.name).toBe('stopped');
  });

  it('who pauses or resumes while the run is stopped is told so at once', () => {
    const swarm = script({});
    swarm.join('a');
    swarm.operator('stop');
    swarm.trace();
    swarm.say('a', { type: 'pause' });
    expect(swarm.trace()).toEqual(['a < standby paused']);
    swarm.say('a', { type: 'resume' });
    expect(swarm.run.state.donors).toMatchObject([{ wish: 'compute' }]);
    expect(swarm.run.state.phase.name).toBe('stopped');
  });

  it('stops at once while a plan is prepared from its checkpoint', () => {
    const swarm = script({});
    swarm.join('a');
    swarm.operator('stop');
    expect(swarm.trace().slice(-2)).toEqual(['a < abandon e1', 'stopped']);
  });
});
