/** What becomes of meetings that fail, and of who is to blame for it. */
import { expect, it } from 'vitest';
import { invariant, peerId } from '../base.ts';
import { GroupedRun, groupedConfig, TWO_GROUPS } from '../testing/groupedRun.ts';

it('[IS51] who does not meet is asked again twice, then its group goes on without it', () => {
  const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, expectedDonors: 4 }, 1));
  run.join('a', 'b', 'c', 'd');
  run.silent.add(peerId('d'));
  run.settle();
  expect(run.commits.size).toBe(4);
  run.expire();
  run.settle();
  expect(run.trace(/^(met|refuse)/)).toEqual([]);
  run.expire();
  expect(run.trace(/^refuse/)).toEqual(['refuse d tooLate']);
  run.settle();
  run.expire();
  run.settle();
  expect(run.isFinished).toBe(true);
  expect(run.trace(/^back/)).toEqual([]);
});

it('[IS58] two of different groups who lose their link meet through the server, now and later; nobody is to blame', () => {
  const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, steps: 8, expectedDonors: 4 }));
  run.join('a', 'b', 'c', 'd');
  for (const name of ['b', 'c']) run.parted.add(peerId(name));
  run.settle();
  expect(run.isFinished).toBe(true);
  const told = run.trace(/^(met|back|refuse|. < meet )/);
  const direct = ['a', 'b', 'c', 'd'].map((name) => `${name} < meet 0`);
  const relayed = (round: number): string[] => [
    ...[`a < meet ${round}`, `b < meet ${round} through the server: c`],
    ...[`c < meet ${round} through the server: b`, `d < meet ${round}`],
  ];
  expect(told).toEqual([...direct, ...relayed(0), 'met 4', ...relayed(1), 'met 8']);
});

it.each([
  ['of the attempt before, counts no second time', 1, ['0: a b', '1: c d']],
  ['of this attempt, counts', 2, ['0: b c', '1: d']],
  ['of a page that does not say which, counts', undefined, ['0: b c', '1: d']],
])('[IS51] one sends two others what nobody can read at a meeting: the second word of it, %s', (_, attempt, kept) => {
  const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, expectedDonors: 4 }));
  run.join('a', 'b', 'c', 'd');
  const invited = (count: number): boolean => run.lines.filter((line) => / < meet 0/.test(line)).length === count;
  while (!invited(4)) invariant(run.answerOne(), 'somebody answers');
  const says = (name: string, of: { attempt?: number }) => {
    const fault = { type: 'fault', epoch: 2, reason: 'badFrame', about: peerId('a'), detail: '' } as const;
    run.tell({ type: 'donorSaid', peer: peerId(name), message: { ...fault, ...of } });
  };
  says('c', { attempt: 1 });
  expect(invited(8)).toBe(true);
  says('d', attempt === undefined ? {} : { attempt });
  expect(run.groups).toEqual(kept);
  expect(run.trace(/^(refuse|back)/)).toEqual(kept[1] === '1: c d' ? [] : ['refuse a faulty', 'back from 4 to 0']);
});

it('[IS58] the words of an attempt about one who has gone since change nothing, and count against nobody', () => {
  const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, expectedDonors: 4 }, 1));
  run.join('a', 'b', 'c', 'd');
  const invited = (count: number): boolean => run.lines.filter((line) => / < meet 0/.test(line)).length === count;
  while (!invited(4)) invariant(run.answerOne(), 'somebody answers');
  const says = (name: string, attempt: number) => {
    const fault = { type: 'fault', epoch: 2, attempt, reason: 'badFrame', about: peerId('a'), detail: '' } as const;
    run.tell({ type: 'donorSaid', peer: peerId(name), message: fault });
  };
  says('c', 1);
  says('d', 2);
  expect(run.trace(/^(refuse|back)/)).toEqual(['refuse a faulty']);
  const said = run.lines.length;
  for (const name of ['c', 'd', 'c', 'd']) says(name, 2);
  expect(run.lines.slice(said)).toEqual([]);
  run.settle();
  expect(run.isFinished).toBe(true);
  expect(run.trace(/^(refuse|back|epoch . 1: )/)).toEqual([]);
});

it('[IS122] who waits for one that two of them name is not late itself, where that one says that it has met', () => {
  const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, expectedDonors: 4 }, 1));
  run.join('a', 'b', 'c', 'd');
  const waiting = ['a', 'b', 'c'].map(peerId);
  for (const peer of waiting) run.silent.add(peer);
  const says = (name: string, about: string, reason: 'noPacket' | 'notPublished') => {
    const message = { type: 'fault', epoch: 2, attempt: 1, reason, detail: '', about: peerId(about) } as const;
    run.tell({ type: 'donorSaid', peer: peerId(name), message });
  };
  run.settle();
  // Nobody is late yet.
  says('a', 'b', 'noPacket');
  run.expire();
  // c has sent b nothing, as d has sent c nothing.
  for (const [name, about] of [
    ['a', 'd'],
    ['c', 'd'],
  ] as const)
    says(name, about, 'noPacket');
  for (const name of ['a', 'b']) says(name, 'c', 'notPublished');
  // Who had met has waited for nobody.
  says('d', 'a', 'noPacket');
  run.settle();
  run.expire();
  expect(run.trace(/^refuse/)).toEqual(['refuse d tooLate']);
  for (const peer of waiting) run.silent.delete(peer);
  run.settle();
  run.expire();
  run.settle();
  expect(run.isFinished).toBe(true);
});

it('[IS51] what comes of a meeting is the same for all, or it is held again; who is alone with it goes', () => {
  const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, expectedDonors: 4 }, 1));
  run.join('a', 'b', 'c', 'd');
  run.lying.add(peerId('c'));
  run.settle();
  expect(run.trace(/^refuse/)).toEqual(['refuse c faulty']);
  run.expire();
  run.settle();
  expect(run.isFinished).toBe(true);
});

it.each([
  ['who tells each something else goes', [['a', 'all']], ['refuse a faulty']],
  ['who tells two of three something else goes', [['a', ['c', 'd']]], ['refuse a faulty']],
  ['one alone is told something else: of the two who came last goes', [['c', ['b']]], ['refuse c faulty']],
] as const)(
  '[IS51] [IS123] nobody is judged before all say what they heard: %s, and nothing is lost',
  (_, told, refused) => {
    const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, expectedDonors: 4 }, 1));
    run.join('a', 'b', 'c', 'd');
    for (const [name, whom] of told)
      run.deceived.set(peerId(name), whom === 'all' ? whom : whom.map((one) => peerId(one)));
    run.settle();
    expect(run.isFinished).toBe(true);
    expect(run.trace(/^(refuse|back)/)).toEqual(refused);
    // The next round's meetings are held as any other.
    expect(run.state.apart.meetings.isTraced).toBe(false);
  },
);

it('[IS123] nor by the second time that a meeting fails, where the first was late', () => {
  const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, expectedDonors: 4 }, 1));
  run.join('a', 'b', 'c', 'd');
  run.deceived.set(peerId('c'), [peerId('a')]);
  run.silent.add(peerId('d'));
  run.settle();
  run.silent.clear();
  run.expire();
  run.settle();
  expect(run.trace(/^(refuse|back)/)).toEqual(['refuse c faulty']);
});

it('[IS123] who heard the same of each other and came to different things are at odds: of two the last goes', () => {
  const run = new GroupedRun(groupedConfig(TWO_GROUPS));
  run.join('a', 'b');
  run.lying.add(peerId('b'));
  run.settle();
  expect(run.isFinished).toBe(true);
  // Nobody else has what it kept.
  expect(run.trace(/^(refuse|back)/)).toEqual(['refuse b faulty', 'back from 4 to 0']);
});

it('[IS58] of who has gone nothing is remembered', () => {
  const run = new GroupedRun(groupedConfig({ ...TWO_GROUPS, steps: 16, expectedDonors: 4 }, 1));
  run.join('a', 'b', 'c', 'd');
  for (const name of ['b', 'c']) run.parted.add(peerId(name));
  while (run.commits.size < 5) invariant(run.answerOne(), 'somebody answers');
  expect(run.state.apart.meetings.relayed.flat().sort()).toEqual(['b', 'b', 'c', 'c']);
  run.gone('b');
  run.settle();
  expect(run.isFinished).toBe(true);
  expect(run.state.apart.meetings.relayed).toEqual([]);
});
