import { describe, expect, it } from 'vitest';
import { script } from '../testing/script.ts';
import { snapshot } from './snapshot.ts';

/** Two donors at step 0, neither has reported. */
function training(part: Parameters<typeof script>[0] = {}) {
  const swarm = script({ expectedDonors: 2, ...part });
  swarm.join('a', 'b');
  swarm.settle('* report');
  swarm.trace();
  return swarm;
}
const fault = (epoch: number, reason: 'linkLost' | 'internal' | 'badFrame' | 'deviceLost' | 'outOfMemory') =>
  ({ type: 'fault', epoch, reason, detail: '' }) as const;

describe('deadlines', () => {
  it('[CO31] refuses who is not ready in time, and plans without them', () => {
    const swarm = script({ expectedDonors: 2 });
    swarm.join('a', 'b');
    expect(swarm.run.state.phase).toMatchObject({ deadline: 1_000 + 120_000 });
    swarm.settle('b ready');
    swarm.trace();
    swarm.expire();
    expect(swarm.trace()).toEqual([
      'refuse b tooLate',
      'a < abandon e1',
      'epoch 2 a: b did not get ready in time',
      'a < prepare e2 step 0 loaded',
    ]);
  });

  it('[CO11] an early tick does nothing', () => {
    const swarm = training();
    const { state } = swarm.run;
    swarm.tick();
    expect(swarm.run.state).toBe(state);
  });

  it('[CO11] allows a minute for the first step of a plan, then four times the slowest one, at least ten seconds; looks at who holds it up at half of that', () => {
    const swarm = training();
    expect(swarm.run.state.phase).toMatchObject({ deadline: 1_000 + 60_000, lookAt: 1_000 + 30_000 });
    swarm.pass(500);
    swarm.settleOne();
    swarm.settleOne();
    expect(swarm.run.state.phase).toMatchObject({ deadline: 1_500 + 10_000, lookAt: 1_500 + 7_000 });
    swarm.pass(6_000);
    swarm.settleOne();
    swarm.settleOne();
    expect(swarm.run.state.phase).toMatchObject({ deadline: 7_500 + 24_000, lookAt: 7_500 + 12_000 });
  });

  it('[CO31] forgives one late report, and refuses whose second one in a row is late', () => {
    const swarm = training();
    swarm.settle('b report');
    swarm.expire();
    expect(swarm.trace()).toEqual([
      'a b < abandon e1',
      'epoch 2 a b: b did not answer in time',
      'a b < prepare e2 step 0 kept',
    ]);
    swarm.settle('b report');
    swarm.trace();
    swarm.expire();
    expect(swarm.trace()).toEqual([
      'refuse b tooLate',
      'a < abandon e2',
      'epoch 3 a: b did not answer in time',
      'a < prepare e3 step 0 loaded',
    ]);
  });

  it('[CO31] a committed step between makes a late report the first one again', () => {
    const swarm = training({ steps: 9 });
    for (let time = 0; time < 3; time++) {
      swarm.settle('b report');
      swarm.expire();
      while (swarm.run.state.committedSteps === time) swarm.settleOne();
    }
    expect(swarm.run.state.donors).toHaveLength(2);
    expect(swarm.run.state.epoch).toBe(4);
  });

  it('[CO31] singles nobody out where all are late, is twice as patient then, and gives up after the third time', () => {
    const swarm = training();
    const allowed: number[] = [];
    for (let time = 0; time < 3; time++) {
      const { phase } = swarm.run.state;
      allowed.push(phase.name === 'training' ? phase.deadline - phase.startedAt : 0);
      swarm.expire();
      swarm.settle('* report');
    }
    expect(allowed).toEqual([60_000, 120_000, 240_000]);
    expect(swarm.trace().slice(-2)).toEqual(['refuse a tooLate', 'refuse b tooLate']);
    expect(swarm.run.state.phase.name).toBe('waiting');
  });

  it('[CO31] one that has the run to itself is late by itself where another one is there', () => {
    const swarm = script({ layers: 1 });
    swarm.join('a', 'b');
    swarm.settle('a report');
    swarm.trace();
    swarm.expire();
    expect(swarm.trace()).toContain('epoch 2 a: a did not answer in time');
    swarm.settle('a report');
    swarm.expire();
    expect(swarm.trace()).toContain('refuse a tooLate');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('refuses whose shards are not in when the run waits for them', () => {
    const swarm = script({ expectedDonors: 2, steps: 1 });
    swarm.join('a', 'b');
    swarm.settle('b uploaded');
    swarm.trace();
    swarm.expire();
    expect(swarm.trace()).toEqual([
      'refuse b tooLate',
      'a < abandon e1',
      'roll back 1 to 0: b did not upload in time',
      'epoch 2 a: b did not upload in time',
      'a < prepare e2 step 0 loaded',
    ]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });
});

describe('faults', () => {
  it('what a donor says of one, as long as may be, is told to the others in a message that they understand', () => {
    const swarm = training();
    swarm.say('a', { ...fault(1, 'internal'), detail: 'x'.repeat(2_000) });
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it.each(['linkLost', 'internal', 'badFrame'] as const)(
    '[CO12] %s of its own: twice again, the third time the sender goes',
    (reason) => {
      const swarm = training();
      for (const epoch of [1, 2]) {
        swarm.say('a', fault(epoch, reason));
        swarm.say('b', fault(epoch, reason));
        expect(swarm.trace().at(-1)).toBe(`a b < prepare e${epoch + 1} step 0 kept`);
        swarm.settle('* report');
        swarm.trace();
      }
      swarm.say('a', fault(3, reason));
      expect(swarm.trace().slice(0, 2)).toEqual(['refuse a faulty', 'b < abandon e3']);
    },
  );

  /** `a` says that it lost its link to `about`. */
  const lost = (swarm: ReturnType<typeof script>, name: string, about: string) => {
    swarm.settle('* report');
    swarm.trace();
    swarm.say(name, { ...fault(swarm.run.state.epoch, 'linkLost'), about: swarm.peer(about) });
  };
  const three = () => {
    const swarm = script({ expectedDonors: 3, layers: 3, steps: 60 });
    swarm.join('a', 'b', 'c');
    return swarm;
  };

  it('[CO12] [CO33] who only hands its state over has a say in that, and none when it was let go', () => {
    const swarm = training({ steps: 9 });
    swarm.settle('* report');
    swarm.say('a', { type: 'pause' });
    swarm.settle('b ready');
    const { committedSteps: step, epoch } = swarm.run.state;
    swarm.trace();
    swarm.say('a', { ...fault(epoch, 'linkLost'), about: swarm.peer('b') });
    const again = ['b a < abandon e2', expect.any(String), `b a < prepare e3 step ${step} handed over`];
    expect(swarm.trace()).toEqual(again);
    swarm.settle('b report');
    expect(swarm.trace()).toEqual(['a < standby paused', `b < start e3 step ${step}`]);
    swarm.say('a', { ...fault(3, 'linkLost'), about: swarm.peer('b') });
    expect(swarm.trace()).toEqual([]);
    swarm.say('a', fault(4, 'internal'));
    expect(swarm.trace()).toEqual(['refuse a outOfOrder']);
    expect(swarm.run.state.committedSteps).toBe(step);
  });

  it('[CO32] a lost link is the pair’s: it goes through the server, and what is said of it then is its own fault', () => {
    const swarm = training({ steps: 3 });
    lost(swarm, 'a', 'b');
    expect(swarm.run.state.relayed).toEqual([['a', 'b']]);
    for (const said of ['a b < abandon e2', 'a b < abandon e3', 'refuse a faulty']) {
      swarm.trace();
      lost(swarm, 'a', 'b');
      expect(swarm.trace()[0]).toBe(said);
    }
  });

  it('[CO32] whoever says it of whomever, and however many: nobody loses a place by that', () => {
    for (const said of ['ab ac', 'ba ca', 'ab ba ac ca bc cb']) {
      const swarm = three();
      for (const [one = '', other = ''] of said.split(' ')) {
        const { relayed } = swarm.run.state;
        if (!relayed.some((pair) => pair.includes(swarm.peer(one)) && pair.includes(swarm.peer(other))))
          lost(swarm, one, other);
      }
      swarm.settle();
      expect([swarm.run.ended, swarm.run.state.donors.length, swarm.run.store.generation]).toEqual(['finished', 3, 0]);
    }
  });

  it('[CO12] twenty committed steps forgive, fewer do not', () => {
    for (const [apart, donors] of [
      [20, 2],
      [9, 1],
    ] as const) {
      // biome-ignore format: one line
      const swarm = training({ steps: 70 });
      for (let time = 1; time <= 3; time++) {
        swarm.settle('* report');
        swarm.say('a', fault(swarm.run.state.epoch, 'internal'));
        const { committedSteps } = swarm.run.state;
        while (time < 3 && swarm.run.state.committedSteps < committedSteps + apart) swarm.settleOne();
      }
      expect(swarm.run.state.donors).toHaveLength(donors);
    }
  });

  it('[CO12] several of one network that fail by turns rest, and go on where nobody else is there', () => {
    const fails = (...names: string[]) => {
      const swarm = script({ expectedDonors: 4, layers: 4, steps: 70 });
      swarm.join(...names);
      swarm.settle('* report');
      for (const name of names.slice(-3)) {
        swarm.say(name, fault(swarm.run.state.epoch, 'internal'));
        swarm.settle('* report');
      }
      const aside = swarm.run.state.donors.filter(({ asideUntilMs }) => asideUntilMs !== null);
      return [aside.map(({ peer }) => String(peer)), swarm.run.state.donors.length, swarm.run.store.generation];
    };
    expect(fails('a', 'n.1', 'n.2', 'n.3')).toEqual([['n.3'], 4, 0]);
    expect(fails('n.0', 'n.1', 'n.2', 'n.3')).toEqual([[], 4, 0]);
    expect(fails('a', 'b', 'c', 'd')).toEqual([[], 4, 0]);
  });

  it('[CO32] losing the device, or running out of memory, loses the donor at once', () => {
    const lost = training();
    lost.say('a', fault(0, 'deviceLost'));
    expect(lost.trace()).toEqual(['b < abandon e1', 'epoch 2 b: a lost its GPU', 'b < prepare e2 step 0 loaded']);
    const full = training();
    full.say('a', fault(1, 'outOfMemory'));
    expect(full.trace().slice(0, 2)).toEqual(['refuse a faulty', 'b < abandon e1']);
  });

  it('[CO28] a plan that was abandoned before everyone was ready is loaded again', () => {
    const swarm = script({ expectedDonors: 2 });
    swarm.join('a', 'b');
    swarm.settle('b ready');
    swarm.trace();
    swarm.say('b', fault(1, 'linkLost'));
    expect(swarm.trace().at(-1)).toBe('a b < prepare e2 step 0 loaded');
  });

  it('[CO14] passes over a fault of an older epoch', () => {
    const swarm = training();
    swarm.say('a', fault(0, 'linkLost'));
    expect(swarm.trace()).toEqual([]);
  });
});

describe('checkpoints and evaluations', () => {
  const upload = (swarm: ReturnType<typeof script>, name: string, step: number, epoch = 1) =>
    swarm.say(name, {
      ...{ type: 'uploaded', epoch, step },
      shards: swarm.shardsOf(name).map((shard) => ({ ...shard, hash: step.toString(16).padStart(64, '0') })),
    });

  it('trains on while shards are uploaded, for half an interval', () => {
    const swarm = training({ steps: 20, checkpointEverySteps: 6 });
    swarm.settle('b uploaded');
    expect(swarm.run.state.phase).toMatchObject({ name: 'holding', awaits: 'checkpoint' });
    // Nothing is prepared anew: for who looks it saves.
    expect(snapshot(swarm.run.state, 0).phase).toBe('saving');
    expect(swarm.run.state.committedSteps).toBe(9);
    swarm.trace();
    upload(swarm, 'b', 6);
    expect(swarm.trace()).toEqual(['checkpoint 6', 'a b < start e1 step 9']);
  });

  it('[RE25] asks for no other checkpoint while one is on its way, and for the next as soon as it is whole', () => {
    const swarm = training({ steps: 9, checkpointEverySteps: 1 });
    swarm.settle('b uploaded');
    expect(swarm.run.state.committedSteps).toBe(2);
    expect(swarm.run.state.pending.map(({ step }) => step)).toEqual([1]);
    swarm.trace();
    upload(swarm, 'b', 1);
    expect(swarm.trace()).toEqual(['checkpoint 1', 'a b < start e1 step 2']);
    swarm.settle('* uploaded');
    expect(swarm.trace()).toContain('a b < committed e1 step 2 checkpoint');
  });

  it('[RE25] whose upload comes on is not late for twice as long as its shards take at 5 bytes a millisecond', () => {
    const swarm = training({ steps: 9, checkpointEverySteps: 1 });
    const askedBefore = swarm.now();
    swarm.settle('b uploaded');
    swarm.trace();
    const elements = swarm.shardsOf('b').reduce((sum, { range: [from, to] }) => sum + to - from, 0);
    const longestMs = 120_000 + (2 * 12 * elements) / 5;
    for (const ms of [60_000, 60_000, longestMs - 120_001]) {
      swarm.pass(ms);
      swarm.uploading('b');
      swarm.tick();
    }
    expect(swarm.trace()).toEqual([]);
    swarm.uploading('a'); // all of its own is there: it buys no time
    swarm.expire();
    expect(swarm.now()).toBe(askedBefore + longestMs);
    expect(swarm.trace()).toContain('refuse b tooLate');
  });

  it('refuses whose upload the next step waited for in vain', () => {
    const swarm = training({ steps: 9, checkpointEverySteps: 1 });
    swarm.settle('b uploaded');
    swarm.trace();
    swarm.expire();
    expect(swarm.trace()).toEqual([
      'refuse b tooLate',
      'a < abandon e1',
      'roll back 2 to 0: b did not upload in time',
      'epoch 2 a: b did not upload in time',
      'a < prepare e2 step 0 loaded',
    ]);
  });

  it('asks for another checkpoint where one lacks the shards of a donor that left', () => {
    const swarm = training({ steps: 20, checkpointEverySteps: 4 });
    swarm.settle('b uploaded');
    expect(swarm.run.state.committedSteps).toBe(6);
    swarm.say('b', { type: 'leave' });
    swarm.trace();
    swarm.settle('b uploaded', 'a uploaded');
    expect(swarm.trace()).toContain('a < committed e2 step 6 checkpoint');
    expect(swarm.run.state.committedSteps).toBe(7);
    swarm.settle('b uploaded');
    expect(swarm.run.ended).toBe('finished');
  });

  it('[CO15] an upload under way outlives a step that is done again with the state kept', () => {
    const swarm = training({ steps: 9, checkpointEverySteps: 1 });
    swarm.settleOne();
    swarm.settleOne();
    swarm.say('a', fault(1, 'linkLost'));
    swarm.settle('* ready');
    expect(swarm.trace()).toContain('checkpoint 1');
  });

  it('[CO73] an upload is one time of what is usual, however often its donor tells of it', () => {
    const swarm = training({ steps: 9, checkpointEverySteps: 1 });
    swarm.settle('b uploaded');
    const before = swarm.run.state.seen.upload.length;
    for (let time = 0; time < 20; time++) upload(swarm, 'a', 1);
    expect(swarm.run.state.seen.upload).toHaveLength(before);
    upload(swarm, 'b', 1);
    expect(swarm.run.state.seen.upload).toHaveLength(before + 1);
  });

  it('[CO33] refuses an upload of nothing', () => {
    const swarm = training({ steps: 9, checkpointEverySteps: 1 });
    swarm.settle('b uploaded');
    swarm.trace();
    swarm.say('b', { type: 'uploaded', epoch: 1, step: 1, shards: [] });
    expect(swarm.trace()[0]).toBe('refuse b outOfOrder');
    expect(swarm.run.state.seen.upload).toHaveLength(1);
  });

  it('[CO33] refuses a shard that is not its own', () => {
    const swarm = training({ checkpointEverySteps: 1 });
    swarm.settleOne();
    swarm.settleOne();
    swarm.trace();
    const shards = swarm.shardsOf('b').map((shard) => ({ ...shard, hash: '0'.repeat(64) }));
    swarm.say('a', { type: 'uploaded', epoch: 1, step: 1, shards });
    expect(swarm.trace()[0]).toBe('refuse a outOfOrder');
  });

  it('[CO16] evaluates before step 0, after every so many steps and at the end, each once', () => {
    const swarm = script({ steps: 5, evaluation: { everySteps: 2, windows: 4 } });
    swarm.join('a');
    swarm.settle();
    expect([...swarm.run.store.evaluations]).toEqual([0, 2, 4, 5].map((steps) => [steps, (20 + 21 + 22) / 20]));
  });

  it('[CO16] asks again after a deadline that was missed', () => {
    const swarm = script({ steps: 1, evaluation: { everySteps: 2, windows: 4 } });
    swarm.join('a');
    swarm.settle('a evaluated');
    swarm.trace();
    swarm.expire();
    swarm.settle();
    expect(swarm.trace().slice(0, 5)).toEqual([
      'a < abandon e1',
      'epoch 2 a: a did not answer in time',
      'a < prepare e2 step 0 kept',
      'a < evaluate e2 step 0',
      'evaluation 0',
    ]);
    expect(swarm.run.ended).toBe('finished');
  });
});
