/** Who goes, and who stays, when what comes out of a step is not finite, or is far from what was. */
import { describe, expect, it } from 'vitest';
import { invariant, peerId } from '../base.ts';
import type { ReportMessage, UnsoundTensor } from '../messages/messages.ts';
import { answer } from '../testing/honestDonor.ts';
import { type Script, script } from '../testing/script.ts';
import { verdictOf } from './blame.ts';

const [a, b, c] = [peerId('a'), peerId('b'), peerId('c')];
const got = (from: string): UnsoundTensor => ({ kind: 'activation', stage: 1, index: 0, from: peerId(from) });
const MADE: UnsoundTensor = { kind: 'activation', stage: 1, index: 0 };

/** `a: got b` each; with a star: a number that it reported is not finite. */
const words = (said: Readonly<Record<string, UnsoundTensor | null>>, reported = '') =>
  Object.entries(said).map(([name, unsound]) => ({
    ...{ peer: peerId(name), unsound: unsound ?? undefined, hasReportedIt: name === reported },
  }));

describe('where what is not finite began', () => {
  it.each<[string, ReturnType<typeof words>, [string, string][], [string, string][], object]>([
    ['made by its own word, others pass it on', words({ a: null, b: MADE, c: got('b'), d: got('c') }), [], [], { verdict: 'makers', peers: ['b'] }],
    ['made by two out of what was sound', words({ a: MADE, b: MADE }), [], [], { verdict: 'makers', peers: ['a', 'b'] }],
    ['nobody says anything', words({ a: null, b: null }), [], [], { verdict: 'makers', peers: [] }],
    ['reported, and nothing is said of it', words({ a: null, b: null }, 'b'), [], [], { verdict: 'makers', peers: ['b'] }],
    ['one word against another', words({ a: null, b: got('a'), c: got('b') }), [], [], { verdict: 'open', pairs: [['a', 'b']] }],
    ['two words against one', words({ a: got('b'), b: null, c: got('b') }), [], [], { verdict: 'open', pairs: [['b', 'a'], ['b', 'c']] }],
    ['the server saw nothing of it', words({ a: null, b: got('a') }), [['a', 'b']], [], { verdict: 'liar', peer: 'b' }],
    ['the server saw it', words({ a: null, b: got('a') }), [['a', 'b']], [['a', 'b']], { verdict: 'liar', peer: 'a' }],
    ['the server saw it of one who says that it made it', words({ a: MADE, b: got('a') }), [['a', 'b']], [['a', 'b']], { verdict: 'makers', peers: ['a'] }],
    ['the server saw it passed on', words({ a: got('d'), b: got('a'), d: null }), [['a', 'b']], [['a', 'b']], { verdict: 'open', pairs: [['d', 'a']] }],
    ['the server saw it begin where it is said to be passed on', words({ a: got('d'), b: got('a'), d: null }), [['a', 'b'], ['d', 'a']], [['a', 'b']], { verdict: 'liar', peer: 'a' }],
    ['each says that the other sent it', words({ a: got('b'), b: got('a') }), [], [], { verdict: 'open', pairs: [['b', 'a'], ['a', 'b']] }],
    ['each says so, and the server saw who was first', words({ a: got('b'), b: got('a') }), [['a', 'b']], [['b', 'a'], ['a', 'b']], { verdict: 'liar', peer: 'b' }],
    ['one who is not there is named', words({ a: null, b: got('x') }), [], [], { verdict: 'liar', peer: 'b' }],
    ['it names itself', words({ a: null, b: got('b') }), [], [], { verdict: 'liar', peer: 'b' }],
  ])('[CO51] %s', (_what, said, relayed, seen, expected) => {
    const pairs = relayed.map(([one, other]) => [peerId(one), peerId(other)] as const);
    const sightings = seen.map(([from, to]) => ({ from: peerId(from), to: peerId(to) }));
    expect(verdictOf(said, pairs, sightings)).toMatchObject(expected);
  }); // biome-ignore format: a case a line
});

/** Three donors in three stages; what `name` would say honestly, changed. */
function three(part: Parameters<typeof script>[0] = {}) {
  const swarm = script({ expectedDonors: 3, layers: 3, steps: 14, ...part });
  swarm.join('a', 'b', 'c');
  return swarm;
}

function report(swarm: Script, name: string, change: (honest: ReportMessage) => ReportMessage): void {
  const { state, store } = swarm.run;
  invariant(store.plan, 'a plan is in force');
  const start = { type: 'start', epoch: state.epoch, step: state.committedSteps } as const;
  const honest = answer(swarm.run.config, peerId(name), store.plan, start);
  invariant(honest?.type === 'report', `${name} reports`);
  swarm.say(name, change(honest));
}

const spoilt = (honest: ReportMessage): ReportMessage => ({
  ...honest,
  losses: honest.losses.map(({ microBatch }) => ({ microBatch, lossSum: null })),
  shards: honest.shards.map((shard) => ({ ...shard, sumSquares: 'NaN' })),
});

/** Everyone's word about this step, in the order of the names; nobody else's. */
function all(swarm: Script, said: Readonly<Record<string, (honest: ReportMessage) => ReportMessage>>): string[] {
  swarm.settle('* report');
  swarm.trace();
  for (const [name, change] of Object.entries(said)) report(swarm, name, change);
  return swarm.trace();
}
const honest = (word: ReportMessage): ReportMessage => word;
const from = (name: string) => (word: ReportMessage): ReportMessage => ({ ...spoilt(word), unsound: got(name) }); // biome-ignore format: one line
const made = (word: ReportMessage): ReportMessage => ({ ...spoilt(word), unsound: MADE });
const isChecked = (swarm: Script): boolean =>
  'inForce' in swarm.run.state.phase && swarm.run.state.phase.inForce.isChecked;

describe('a step that is not finite', () => {
  it('[CO50] is done again with everyone looking, and committed where it then is finite', () => {
    const swarm = three();
    expect(all(swarm, { a: honest, b: honest, c: spoilt })[0]).toBe('a b c < abandon e1');
    expect(isChecked(swarm)).toBe(true);
    expect(all(swarm, { a: honest, b: honest, c: honest })[0]).toBe('commit 0');
    swarm.settle();
    expect([swarm.run.ended, swarm.run.state.donors.length]).toEqual(['finished', 3]);
  });

  it('[CO50] is judged when every member has been heard', () => {
    const swarm = three();
    all(swarm, { a: honest, b: honest, c: spoilt });
    expect(all(swarm, { a: honest, c: from('b') })).toEqual([]);
  });

  it('[CO51] [CO52] word against word goes through the server, and who is seen to send it goes, nobody else', () => {
    const swarm = three();
    all(swarm, { a: spoilt, b: honest, c: spoilt });
    all(swarm, { a: from('b'), b: honest, c: honest });
    expect(swarm.run.state.relayed).toEqual([[b, a]]);
    swarm.settle('* report');
    swarm.saw('b', 'a');
    expect(all(swarm, { a: from('b'), b: honest, c: honest })[0]).toBe('refuse b faulty (proven)');
    swarm.settle();
    expect([swarm.run.ended, swarm.run.state.donors.length, swarm.run.state.relayed]).toEqual(['finished', 2, []]);
  });

  it('[CO51] whoever says so of a finite tensor goes itself', () => {
    const swarm = three();
    all(swarm, { a: honest, b: honest, c: spoilt });
    all(swarm, { a: honest, b: honest, c: from('b') });
    expect(all(swarm, { a: honest, b: honest, c: from('b') })[0]).toBe('refuse c faulty (proven)');
    swarm.settle();
    expect([swarm.run.ended, swarm.run.state.donors.length]).toEqual(['finished', 2]);
  });

  it('[CO53] who made it gives its place to others, and rests where it comes out finite with them', () => {
    const swarm = three({ checkpointEverySteps: 3 });
    while (swarm.run.state.committedSteps < 5) swarm.settleOne();
    all(swarm, { a: honest, b: honest, c: spoilt });
    const lines = all(swarm, { a: honest, b: made, c: from('b') });
    expect(lines[0]).toBe('a b c < abandon e2');
    swarm.settle();
    expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual([]);
    expect([swarm.run.ended, swarm.run.state.donors.map(({ peer }) => peer)]).toEqual(['finished', [a, b, c]]);
  });

  it('[CO53] each time it rests twice as long, and is not refused: what others sent it may have been the cause', () => {
    const swarm = three({ steps: 400, checkpointEverySteps: 1 });
    const rested: number[] = [];
    for (const step of [5, 105, 205]) {
      while (swarm.run.state.committedSteps < step) swarm.settleOne();
      expect(swarm.run.state.donors).toHaveLength(3);
      all(swarm, { a: honest, b: honest, c: spoilt });
      all(swarm, { a: honest, b: made, c: from('b') });
      while (swarm.run.state.committedSteps < step + 1) swarm.settleOne();
      const { asideUntilMs = null } = swarm.run.state.donors.find(({ peer }) => peer === b) ?? {};
      rested.push((asideUntilMs ?? 0) - swarm.now());
      // Nobody is late while a run stands.
      swarm.operator('pause');
      swarm.settle();
      swarm.pass(rested.at(-1) ?? 0);
      swarm.tick();
      swarm.operator('resume');
    }
    expect(rested.map((ms) => Math.round(ms / 60_000))).toEqual([1, 2, 4]);
    expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual([]);
    swarm.settle();
    expect([swarm.run.ended, swarm.run.state.donors.map(({ peer }) => peer)]).toEqual(['finished', [a, b, c]]);
  });

  it('[CO53] the step is done without each member once, whoever came last first, and no committed step is given up', () => {
    const swarm = three({ steps: 14, checkpointEverySteps: 100 });
    while (swarm.run.state.committedSteps < 5) swarm.settleOne();
    const without: string[][] = [];
    /** Whatever the others do, it is not finite as long as `liar` is in the plan. */
    const notFiniteWith = (liar: string): void => {
      for (let attempt = 0; attempt < 20 && swarm.run.state.committedSteps === 5; attempt++) {
        swarm.settle('* report');
        const { phase } = swarm.run.state;
        if (phase.name !== 'training') return;
        const names = phase.inForce.duties.map(({ peer }) => String(peer));
        if (isChecked(swarm)) without.push(names);
        const isSpoilt = names.includes(liar);
        for (const name of names) report(swarm, name, isSpoilt && name === names.at(-1) ? made : honest);
      }
    };
    notFiniteWith('a');
    expect(without.map((names) => names.toSorted().join(''))).toEqual(['abc', 'ab', 'ac', 'bc']);
    expect(swarm.run.state.committedSteps).toBe(6);
    const resting = swarm.run.state.donors.filter(({ asideUntilMs }) => asideUntilMs !== null);
    expect(resting.map(({ peer }) => peer)).toEqual([a]);
    swarm.settle();
    expect([swarm.run.ended, swarm.run.store.generation, swarm.run.state.donors.length]).toEqual(['finished', 0, 3]);
  });

  it('[CO53] the run is paused where it comes out so without each of them, nobody goes, and Resume does that step again', () => {
    const swarm = three({ checkpointEverySteps: 100 });
    while (swarm.run.state.committedSteps < 5) swarm.settleOne();
    for (let attempt = 0; attempt < 20 && swarm.run.state.phase.name !== 'diverged'; attempt++) {
      swarm.settle('* report');
      const { phase } = swarm.run.state;
      if (phase.name !== 'training') break;
      for (const { peer } of phase.inForce.duties) report(swarm, peer, made);
    }
    expect(swarm.run.state).toMatchObject({ phase: { name: 'diverged' }, doubt: null });
    expect(swarm.run.state.donors.map(({ asideUntilMs }) => asideUntilMs)).toEqual([null, null, null]);
    swarm.operator('resume');
    swarm.settle();
    expect([swarm.run.ended, swarm.run.store.generation]).toEqual(['finished', 0]);
    expect(swarm.run.store.commits.map(({ step }) => step)).toEqual(Array.from({ length: 14 }, (_, step) => step));
  });

  it('[CO50] an evaluation too: then every member answers it', () => {
    const swarm = three({ evaluation: { everySteps: 100, windows: 6 } });
    const losses = [0, 1, 2].map((microBatch) => ({ microBatch, lossSum: null }));
    swarm.settle('* evaluated');
    swarm.say('c', { type: 'evaluated', epoch: 1, step: 0, losses });
    swarm.settle('* evaluated');
    swarm.trace();
    swarm.say('c', { type: 'evaluated', epoch: 2, step: 0, losses });
    swarm.say('a', { type: 'evaluated', epoch: 2, step: 0, losses: [] });
    expect(swarm.trace()).toEqual([]);
    swarm.say('b', { type: 'evaluated', epoch: 2, step: 0, losses: [] });
    expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual([]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });
});

describe('what is finite is committed, however unusual it is', () => {
  const upTo = (swarm: Script, steps: number): void => {
    while (swarm.run.state.committedSteps < steps) swarm.settleOne();
  };
  const lossOf = (lossSum: number) => (word: ReportMessage): ReportMessage => ({ ...word, losses: word.losses.map((loss) => ({ ...loss, lossSum })) }); // biome-ignore format: one line
  const squares = (sumSquares: number) => (word: ReportMessage): ReportMessage => ({ ...word, shards: word.shards.map((shard) => ({ ...shard, sumSquares })) }); // biome-ignore format: one line

  it.each<[string, (word: ReportMessage) => ReportMessage]>([
    ['a norm a million times the last one', squares(1e12)],
    ['no gradient at all', squares(0)],
    ['a loss of ten million', lossOf(1e6)],
    ['a loss of nothing', lossOf(0)],
    // A millionth of a nat below 0 a target: 30 targets are in a step.
    ['a loss below nothing by rounding', lossOf(-1e-6)],
  ])('%s', (_what, change) => {
    const swarm = three({ steps: 30 });
    for (let step = 11; step < 29; step += 2) {
      upTo(swarm, step);
      expect(all(swarm, { a: change, b: change, c: change })[0]).toBe(`commit ${step}`);
    }
    swarm.settle();
    expect([swarm.run.ended, swarm.run.state.donors.length]).toEqual(['finished', 3]);
    expect(swarm.run.store.commits.map(({ step }) => step)).toEqual(Array.from({ length: 30 }, (_, step) => step));
  });

  it('an evaluation too', () => {
    const swarm = three({ evaluation: { everySteps: 100, windows: 6 } });
    swarm.settle('* evaluated');
    swarm.trace();
    const losses = [0, 1, 2].map((microBatch) => ({ microBatch, lossSum: 1e9 }));
    swarm.say('c', { type: 'evaluated', epoch: 1, step: 0, losses });
    expect(swarm.trace()[0]).toMatch(/^evaluation/);
    expect(swarm.run.state.donors).toHaveLength(3);
  });
});

describe('a report', () => {
  it.each<[string, (word: ReportMessage) => ReportMessage]>([
    ['a loss of 1e308', (word) => ({ ...word, losses: word.losses.map((loss) => ({ ...loss, lossSum: 1e308 })) })],
    ['a loss below 0', (word) => ({ ...word, losses: word.losses.map((loss) => ({ ...loss, lossSum: -1 })) })],
    ['squares that no sum in float32 reaches', (word) => ({ ...word, shards: word.shards.map((shard) => ({ ...shard, sumSquares: 1e308 })) })],
    ['a digest that nobody asked for', (word) => ({ ...word, shards: word.shards.map((shard) => ({ ...shard, digests: ['0'.repeat(22)] })) })],
    ['more bytes than the step sends', (word) => ({ ...word, bytesDirect: 1e9 })],
    ['work that ends before it begins', (word) => ({ ...word, spans: [{ action: '2F0', start: 1, end: 0 }] })],
    ['more work than the step has lasted', (word) => ({ ...word, spans: [{ action: '2F0', start: 0, end: 9 }] })],
  ])('[CO55] with %s is a fault of who sent it, the third of which costs its place', (_what, change) => {
    const swarm = three();
    for (const line of ['a b c < abandon e1', 'a b c < abandon e2', 'refuse c faulty'])
      expect(all(swarm, { a: honest, b: honest, c: change })[0]).toBe(line);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  }); // biome-ignore format: a case a line

  it('[CO55] may tell of as much work as there was time', () => {
    const swarm = three();
    swarm.settle('* report');
    swarm.pass(9_000);
    const spans = [{ action: '2F0', start: 100, end: 109 }];
    expect(all(swarm, { a: honest, b: honest, c: (word) => ({ ...word, spans }) })[0]).toBe('commit 0');
  });

  it.each<[string, { microBatch: number; lossSum: number }[]]>([
    ['none', []],
    ['one twice', [0, 1, 1].map((microBatch) => ({ microBatch, lossSum: 1 }))],
    ['one below 0', [0, 1, 2].map((microBatch) => ({ microBatch, lossSum: microBatch - 1 }))],
  ])('[CO16] an evaluation with %s of its losses does not count', (_what, losses) => {
    const swarm = three({ evaluation: { everySteps: 100, windows: 6 } });
    swarm.settle('* evaluated');
    swarm.say('c', { type: 'evaluated', epoch: 1, step: 0, losses });
    expect(swarm.trace().filter((line) => line.startsWith('evaluation'))).toEqual([]);
    swarm.settle();
    expect(swarm.run.store.evaluations.get(0)).toBe((20 + 21 + 22) / 30);
  });
});

describe('state that is handed over and cannot be', () => {
  /** `b` takes over from `a`, and says each time that what it got is not finite. */
  const takingOver = () => {
    const swarm = script({ steps: 9 });
    swarm.join('a');
    swarm.settle('* report');
    swarm.join('b');
    while (swarm.run.state.phase.name !== 'preparing') swarm.settleOne();
    const say = (): string[] => {
      swarm.trace();
      swarm.say('b', {
        type: 'fault',
        epoch: swarm.run.state.epoch,
        reason: 'badFrame',
        detail: 'd',
        about: swarm.peer('a'),
      });
      return swarm.trace();
    };
    return { swarm, say };
  };

  it('[CO36] is the pair’s fault: it goes through the server, and who was seen to give it goes', () => {
    const { swarm, say } = takingOver();
    expect(say().at(-1)).toMatch(/^a b < prepare e\d+ step 1 handed over$/);
    expect(swarm.run.state.relayed).toHaveLength(1);
    swarm.saw(swarm.peer('a'), swarm.peer('b'));
    expect(say()[0]).toBe('refuse a faulty');
    swarm.settle();
    expect([swarm.run.ended, swarm.run.state.donors.map(({ peer }) => peer)]).toEqual(['finished', [swarm.peer('b')]]);
  });

  it('[CO36] is the fault of who says so where the server saw nothing', () => {
    const { swarm, say } = takingOver();
    for (let time = 0; time < 3; time++) expect(say()[0]).toMatch(/^a b < abandon/);
    expect(say()[0]).toBe('refuse b faulty');
    swarm.settle();
    expect([swarm.run.ended, swarm.run.state.donors.length]).toEqual(['finished', 1]);
  });
});
