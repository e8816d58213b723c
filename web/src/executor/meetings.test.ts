import { beforeEach, expect, test } from 'vitest';
import { at, got, type PeerId, peerId } from '../../../swarm/base.ts';
import { encodeTensor } from '../../../swarm/messages/frame.ts';
import type { MeetMessage } from '../../../swarm/messages/messages.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Islands, Train } from '../../../swarm/run/runFile.ts';
import { meetingPassages } from '../../../swarm/ways/meeting.ts';
import { changeOf, initialValue } from '../testing/keeperState.ts';
import { MeetingDonor as Donor, OUTLINE as MODEL, MeetingPost as Post } from '../testing/meetingDonor.ts';

const [A, B, R] = [peerId('a'), peerId('b'), peerId('r')];
const ISLANDS: Islands = {
  ...{ count: 2, innerSteps: 1, exchange: 'f32', publish: 'f32', overlap: false },
  outer: { learningRate: 0.5, momentum: 0 },
};
const TRAIN = { steps: 4, sequenceLength: 5, globalBatchSize: 1, islands: ISLANDS } as Train;

/** One donor computes; whoever else is named keeps copies. */
function planOf(island: number, peer: PeerId, replicas: readonly PeerId[]): Plan {
  const split = equalSplit(MODEL, 1, [peer]);
  const state = split.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => ({ ...shard, replicas })),
  }));
  return { ...split, state, islands: [island] };
}
/** Island 0: a alone. Island 1: b, and r who keeps a copy of all. */
const PLANS = [planOf(0, A, []), planOf(1, B, [R])] as const;

const message = (attempt: number, round = 0): MeetMessage => ({
  ...{ type: 'meet', epoch: 0, round, attempt, steps: [1, 1] },
  groups: PLANS.map(({ islands = [], state }, place) => ({ epoch: place + 1, islands: [...islands], state })),
});

let post: Post;
let donors: readonly [Donor, Donor, Donor];
const each = (act: (donor: Donor) => void | Promise<void>) => Promise.all(donors.map(act));

beforeEach(async () => {
  post = new Post();
  donors = [
    new Donor(A, post, TRAIN, PLANS[0], 1),
    new Donor(B, post, TRAIN, PLANS[1], 2),
    new Donor(R, post, TRAIN, PLANS[1], 2),
  ];
  for (const [place, donor] of donors.entries()) post.donors.set(at([A, B, R], place), donor);
  await each((donor) => donor.begin());
  for (const donor of donors) donor.update(donor === donors[0] ? 0 : 1);
});

/** Whatever waits for nobody else is done. */
const turns = () => new Promise((resolve) => setImmediate(resolve));

const mets = (donor: Donor) => donor.said.flatMap((said) => (said.type === 'met' ? said : []));
const faults = (donor: Donor) => donor.said.flatMap((said) => (said.type === 'fault' ? said : []));

/** Worked out element by element: half of the mean of what the two islands changed in their steps is taken. */
async function isMet(rounds = 1): Promise<void> {
  for (const { holding } of donors) {
    const { role } = holding;
    for (const { block, range } of role?.kept ?? []) {
      const found = (await role?.shards.readState(block, range, ['value'])) ?? [];
      expect(found).toHaveLength(range[1] - range[0]);
      for (const [i, value] of found.entries()) {
        let wanted = initialValue(range[0] + i);
        for (let step = 0; step < 2 * rounds; step++) wanted += 0.25 * changeOf(step, 0, range[0] + i);
        expect(value).toBeCloseTo(wanted, 5);
      }
    }
    expect(holding.step).toBe(2 * rounds);
  }
}

test('[IS43] [IS46] all who keep a range come to one digest, and what came is the state when the meeting is over, once', async () => {
  await each((donor) => donor.meet(message(0)));
  await each((donor) => donor.settled());
  const before = await Promise.all(donors.map((donor) => donor.shared()));
  const [one, ...more] = donors.map((donor) =>
    mets(donor).map(({ digests, round, attempt }) => ({ digests, round, attempt })),
  );
  expect(one).toHaveLength(1);
  for (const other of more) expect(other).toEqual(one);
  await each((donor) => donor.over(0));
  await each((donor) => donor.settled());
  await isMet();
  expect(await Promise.all(donors.map((donor) => donor.shared()))).not.toEqual(before);
  const after = await Promise.all(donors.map((donor) => donor.shared()));
  await each((donor) => donor.over(0));
  await each((donor) => donor.settled());
  expect(await Promise.all(donors.map((donor) => donor.shared()))).toEqual(after);
  await each((donor) => expect(faults(donor)).toEqual([]));
});

test('[IS46] [CO22] it is so even where the epoch is given up a moment later, or the server was another meanwhile', async () => {
  await each((donor) => donor.meet(message(0)));
  await each((donor) => donor.settled());
  for (const donor of donors) {
    donor.meetings.restart();
    donor.over(0);
    donor.meetings.drop();
    donor.epochs.abandon(donor.epoch, 'given up');
  }
  await each((donor) => donor.settled());
  await isMet();
});

test('[IS55] a later server says that it was over: who came to it takes it, once, and says so; who did not keeps what it had', async () => {
  const [a, b, r] = donors;
  const standings = () => donors.map(({ holding }) => [holding.standing.role?.step, holding.standing.role?.met]);
  await each((donor) => donor.meet(message(0)));
  await each((donor) => donor.settled());
  const before = await r.shared();
  r.meetings.drop();
  const group0 = [1, undefined]; // its only step of the round is the first one
  const group1 = [2, undefined];
  expect(standings()).toEqual([group0, group1, group1]);
  for (const donor of donors) {
    donor.meetings.restart();
    donor.meetings.stoodAt(2, donor.holding.generation + 1); // the run went back since
    donor.meetings.stoodAt(4, donor.holding.generation); // of another round
  }
  expect(standings()).toEqual([group0, group1, group1]);
  for (const donor of donors) donor.meetings.stoodAt(2, donor.holding.generation);
  expect(standings()).toEqual([[2, 2], [2, 2], group1]);
  await each((donor) => donor.settled());
  const met = await a.shared();
  expect(await b.shared()).toEqual(met);
  expect(await r.shared()).toEqual(before);
  a.meetings.stoodAt(2, a.holding.generation);
  await a.settled();
  expect(await a.shared()).toEqual(met);
});

const beside = (attempt: number) => ({ ...message(attempt), beside: true as const });

/** Half of the mean of what the two islands changed in their round, and all of what this one's next step did. */
async function hasTakenIn({ holding, epoch }: Donor): Promise<void> {
  for (const { block, range } of holding.role?.kept ?? []) {
    const found = (await holding.role?.shards.readState(block, range, ['value'])) ?? [];
    for (const [i, value] of found.entries()) {
      const change = (step: number): number => changeOf(step, 0, range[0] + i);
      expect(value).toBeCloseTo(initialValue(range[0] + i) + 0.25 * (change(0) + change(1)) + change(1 + epoch), 5);
    }
  }
}

test('[IS80] [IS81] beside the next round: it begins at once, an attempt later on is about the same, and what came of it is taken in', async () => {
  post.held = [];
  await each((donor) => donor.meet(beside(0)));
  await each((donor) => donor.settled());
  // Nobody has heard of the others, and the next step is the first of the next round.
  expect(donors.map(({ holding }) => holding.committedStep)).toEqual([2, 2, 2]);
  for (const donor of donors) donor.update(donor === donors[0] ? 2 : 3);
  post.held = null;
  await each((donor) => donor.meet(beside(1)));
  expect(donors.map(({ holding }) => holding.committedStep)).toEqual([3, 4, 4]);
  await each(async (donor) => {
    while (mets(donor).length === 0) await turns();
    donor.takeIn(0, 4);
    await donor.settled();
    expect(faults(donor)).toEqual([]);
  });
  for (const donor of donors) await hasTakenIn(donor);
});

test('[IS83] beside the next round: b is gone, r speaks for its island whatever becomes of the epoch, and takes in what came of it', async () => {
  const [a, b, r] = donors;
  post.held = [];
  await each((donor) => donor.meet(beside(0)));
  await each((donor) => donor.settled());
  for (const donor of donors) donor.update(donor === a ? 2 : 3);
  post.donors.delete(B);
  b.meetings.drop();
  post.held = null;
  // Its step cannot go on without b.
  r.epochs.abandon(r.epoch, 'b is gone');
  r.meetings.abandon();
  const groups = beside(1).groups.map((group, place) =>
    place === 0 ? group : { ...group, state: planOf(1, R, []).state },
  );
  for (const donor of [a, r]) donor.meet({ ...beside(1), groups });
  for (const donor of [a, r]) {
    while (mets(donor).length === 0) await turns();
    donor.takeIn(0, 4);
    await donor.settled();
    expect(faults(donor)).toEqual([]);
  }
  for (const donor of [a, r]) await hasTakenIn(donor);
});

test('[IS83] an attempt beside the steps goes on where the epoch is given up, and comes to the same', async () => {
  const [, , r] = donors;
  post.held = [];
  await each((donor) => donor.meet(beside(0)));
  await each((donor) => donor.settled());
  r.epochs.abandon(r.epoch, 'its step failed');
  r.meetings.abandon();
  const sent = post.held;
  post.held = null;
  for (const { deliver } of sent) deliver();
  await each(async (donor) => {
    while (mets(donor).length === 0) await turns();
    expect(faults(donor)).toEqual([]);
  });
});

test('[IS42] packets that come before the word of their meeting wait: of the own group, and of whom it met before', async () => {
  const [a, b, r] = donors;
  post.held = [];
  b.meet(message(0));
  while (!post.held.some(({ to }) => to === R)) await turns();
  const sent = post.held;
  post.held = null;
  for (const { to, deliver } of sent) if (to === R) deliver();
  // There is no link to another group's before the word is there.
  for (const donor of [a, r]) donor.meet(message(0));
  for (const { to, deliver } of sent) if (to === A) deliver();
  await each((donor) => donor.settled());
  await each((donor) => donor.over(0));
  await each((donor) => donor.settled());
  await isMet();
  for (const donor of donors) donor.update(donor === a ? 2 : 3);
  a.meet(message(1, 1));
  await turns();
  for (const donor of [b, r]) donor.meet(message(1, 1));
  await each((donor) => donor.settled());
  await each((donor) => donor.over(1));
  await each((donor) => donor.settled());
  await isMet(2);
});

test('[IS45] a link that is lost on the way ends the attempt alone, told once; the next one comes to the same', async () => {
  const [a, b] = donors;
  const before = await Promise.all(donors.map((donor) => donor.shared()));
  post.held = [];
  await each((donor) => donor.meet(message(0)));
  await turns();
  a.lose(B);
  a.lose(B);
  b.lose(A);
  a.lose(peerId('stranger'));
  await a.settled();
  const closed = { type: 'fault', reason: 'linkLost', detail: 'it closed', attempt: 0 };
  expect([a, b].map(faults)).toEqual([[{ ...closed, epoch: 1, about: B }], [{ ...closed, epoch: 2, about: A }]]);
  expect(await Promise.all(donors.map((donor) => donor.shared()))).toEqual(before);
  const late = post.held;
  post.held = null;
  await each((donor) => donor.meet(message(1)));
  for (const { deliver } of late) deliver(); // of the attempt before: dropped
  await each((donor) => donor.settled());
  await each((donor) => expect(mets(donor).map(({ attempt }) => attempt)).toEqual([1]));
  await each((donor) => donor.over(0));
  await each((donor) => donor.settled());
  await isMet();
});

test('[IS45] what is no packet of this meeting, or of another length or sender, is dropped', async () => {
  const [a] = donors;
  a.meet(message(3));
  const passage = meetingPassages(MODEL, ISLANDS, message(3).groups).find(({ from, to }) => from === B && to === A);
  const { tensor } = got(new Map([['one', passage]]), 'one') ?? {};
  if (!tensor) throw new Error('b says something to a');
  const words = new Float32Array(tensor.range[1] - tensor.range[0]);
  const key = { ...tensor, epoch: 3, step: 0 };
  const wrong = [
    { ...key, stage: 0 },
    { ...key, index: 77 },
    { ...key, step: 1 },
    { ...key, epoch: 2 },
    { ...key, range: [key.range[0], key.range[1] + 1] as const },
  ];
  for (const bad of wrong)
    for (const frame of encodeTensor(bad, new Float32Array(bad.range[1] - bad.range[0]))) a.meetings.accept(B, frame);
  for (const frame of encodeTensor(key, words)) a.meetings.accept(R, frame);
  expect(a.meetings.droppedFrames).toBe(wrong.length + 1);
  for (const frame of encodeTensor(key, words)) a.meetings.accept(B, frame);
  expect(a.meetings.droppedFrames).toBe(wrong.length + 1);
});
