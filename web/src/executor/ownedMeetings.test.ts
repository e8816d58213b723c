import { expect, test, vi } from 'vitest';
import { at, got, type PeerId, peerId } from '../../../swarm/base.ts';
import { encodeTensor } from '../../../swarm/messages/frame.ts';
import { type MeetingOwners, NO_EPOCH } from '../../../swarm/messages/meetingWords.ts';
import type { MeetMessage } from '../../../swarm/messages/messages.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Islands, Train } from '../../../swarm/run/runFile.ts';
import { meetingPassages } from '../../../swarm/ways/meeting.ts';
import { initialValue } from '../testing/keeperState.ts';
import { MeetingDonor, MeetingPost, OUTLINE } from '../testing/meetingDonor.ts';
import type { RunFiles } from './runFiles.ts';

const [A, B, R, O] = [peerId('a'), peerId('b'), peerId('r'), peerId('o')];
const ISLANDS: Islands = {
  ...{ count: 'auto', overlap: false, exchange: { top: 5, chunk: 64, feedback: 0.9 }, publish: 'int8' },
  outer: { learningRate: 0.5, momentum: 0.5 },
} as Islands;
const TRAIN = { steps: 40, sequenceLength: 5, globalBatchSize: 1, islands: ISLANDS } as Train;
const CHECKPOINT = 3;

function planOf(island: number, peer: PeerId, replicas: readonly PeerId[], more: Pick<Plan, 'owned'>): Plan {
  const split = equalSplit(OUTLINE, 1, [peer]);
  const state = split.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => ({ ...shard, replicas })),
  }));
  return { ...split, state, islands: [island], ...more };
}

/** a does island 0; b island 1, and r keeps a copy of that. o is with them and keeps nothing, or is in no plan. */
class Run {
  readonly post = new MeetingPost();
  readonly plans: readonly [Plan, Plan];
  readonly donors: ReadonlyMap<PeerId, MeetingDonor>;
  readonly reads: string[] = [];
  #attempt = 0;
  #round = 0;

  constructor(more: Pick<Plan, 'owned'>, isIdle = false) {
    this.plans = [planOf(0, A, [], more), planOf(1, B, [R], more)];
    const state: RunFiles['state'] = async (checkpoint, block, kind, [from, to]) => {
      this.reads.push(`${checkpoint} ${block} ${kind} ${from}-${to}`);
      return Float32Array.from({ length: to - from }, (_, i) => (kind === 'velocity' ? 0 : initialValue(from + i)));
    };
    this.donors = new Map(
      [A, B, R, O].map((peer) => {
        const place = peer === A ? 0 : 1;
        const epoch = isIdle && peer === O ? NO_EPOCH : place + 1;
        return [peer, new MeetingDonor(peer, this.post, TRAIN, at(this.plans, place), epoch, state)];
      }),
    );
    for (const [peer, donor] of this.donors) this.post.donors.set(peer, donor);
  }

  async begin(): Promise<this> {
    for (const donor of this.donors.values()) await donor.begin();
    return this;
  }

  message(owners?: MeetingOwners): MeetMessage {
    return {
      ...{ type: 'meet', epoch: 0, round: this.#round, attempt: this.#attempt++, end: this.#round + 1, steps: [2, 1] },
      groups: this.plans.map(({ islands = [], state }, place) => ({ epoch: place + 1, islands: [...islands], state })),
      ...(owners && { owners }),
    };
  }

  /** A step of each island, and an attempt. What each said of it. */
  async meet(owners?: MeetingOwners): Promise<string[]> {
    const before = new Map([...this.donors].map(([peer, { said }]) => [peer, said.length]));
    for (const [peer, donor] of this.donors) if (peer !== O) donor.update(2 * this.#round + (peer === A ? 0 : 1));
    const message = this.message(owners);
    for (const donor of this.donors.values()) donor.meet(message);
    await this.#answers(message.attempt);
    return [...this.donors].flatMap(([peer, { said }]) =>
      said.slice(got(before, peer)).flatMap((one) => {
        if (one.type === 'fault') return `${peer} fault ${one.detail}`;
        if (one.type !== 'met') return [];
        return (one.owned ?? one.digests).map(({ block, digest }) => `${peer} ${block} ${digest}`);
      }),
    );
  }

  /** All have met, or one cannot: then nobody does. */
  async #answers(attempt: number): Promise<void> {
    const all = [...this.donors.values()];
    const said = ({ said: words }: MeetingDonor, type: 'met' | 'fault'): boolean =>
      words.some((word) => word.type === type && word.attempt === attempt);
    while (!all.every((donor) => said(donor, 'met')) && !all.some((donor) => said(donor, 'fault')))
      await new Promise((resolve) => setImmediate(resolve));
    if (all.some((donor) => said(donor, 'fault'))) for (const { meetings } of all) meetings.drop();
  }

  async over(): Promise<void> {
    const over = { type: 'meetingOver', round: this.#round++, end: this.#round } as const;
    for (const donor of this.donors.values()) donor.meetings.over({ ...over, epoch: donor.epoch });
    for (const donor of this.donors.values()) await donor.settled();
  }
}

const BLOCKS = OUTLINE.blocks.map(({ name, elements }) => ({ block: name, range: [0, elements] as const }));
const ownersOf = (have: readonly PeerId[], keep: readonly PeerId[]): MeetingOwners => ({
  ranges: BLOCKS.map((part) => ({ ...part, have: [...have], keep: [...keep] })),
  ...(have.length === 0 && { checkpoint: CHECKPOINT }),
});
/** What all keepers come to without owners: S, V and P, digested as owners digest them. */
const saidBy = (said: readonly string[], peer: PeerId): string[] =>
  said.filter((line) => line.startsWith(`${peer} `)).map((line) => line.slice(2));

test.each([
  ['keeps nothing', false],
  ['is in no plan', true],
])(
  '[IS112] [IS114] who owns, or %s, has what every keeper has otherwise, over meetings, plans and a change of hands',
  async (_, isIdle) => {
    const [run, plain] = [await new Run({ owned: true }, isIdle).begin(), await new Run({}).begin()];
    const hands: [have: PeerId[], keep: PeerId[]][] = [
      [[], [O, A]],
      [
        [O, A],
        [O, A],
      ],
      [
        [O, A],
        [A, R],
      ],
      [[R], [R]],
    ];
    for (const [have, keep] of hands) {
      const said = await run.meet(ownersOf(have, keep));
      const wanted = saidBy(await plain.meet(), A);
      expect(wanted).toHaveLength(BLOCKS.length);
      for (const peer of [A, B, R, O]) expect(saidBy(said, peer), peer).toEqual(keep.includes(peer) ? wanted : []);
      await run.over();
      await plain.over();
      // Another plan of the same run.
      for (const donor of run.donors.values()) donor.prepared(0);
    }
    const read = (kind: string) =>
      BLOCKS.map(({ block, range }) => `${CHECKPOINT} ${block} ${kind} ${range.join('-')}`);
    const once = ['shared', 'velocity', 'value'].flatMap(read);
    expect(run.reads.toSorted()).toEqual([...once, ...once].toSorted());
    expect(plain.reads).toEqual([]);
  },
);

test('[IS111] a donor that the run goes back with owns nothing, and says so where it is said to', async () => {
  const run = await new Run({ owned: true }).begin();
  await run.meet(ownersOf([], [O]));
  await run.over();
  got(run.donors, O).prepared(1);
  expect(await run.meet(ownersOf([O], [O]))).toEqual([
    `o fault Error: what islands share of embedding [${BLOCKS[0]?.range.join(', ')}) is not here`,
  ]);
});

test.each([
  ['paused, or has left, owns nothing any more', false],
  ['spare goes on owning', true],
])('[IS111] a donor in no plan that is %s', async (_, isSpare) => {
  const run = await new Run({ owned: true }, true).begin();
  await run.meet(ownersOf([], [O]));
  await run.over();
  got(run.donors, O).meetings.leave(isSpare);
  const said = saidBy(await run.meet(ownersOf([O], [O])), O);
  expect(said.some((line) => line.includes('is not here'))).toBe(!isSpare);
});

test('[IS114] what an attempt came to is nobody’s before the meeting is over', async () => {
  const run = await new Run({ owned: true }).begin();
  await run.meet(ownersOf([], [O]));
  for (const donor of run.donors.values()) donor.meetings.drop();
  expect(saidBy(await run.meet(ownersOf([O], [O])), O)).toEqual([expect.stringContaining('is not here')]);
});

test('[IS115] what is no tensor of this attempt, or of another sender or length, is dropped', async () => {
  const run = await new Run({ owned: true }).begin();
  const b = got(run.donors, B);
  const message = run.message(ownersOf([], [O, A]));
  b.meet(message);
  const all = meetingPassages(OUTLINE, ISLANDS, message.groups, message.owners);
  const passage = all.find(({ to, tensor: { kind } }) => to === B && kind === 'published');
  if (!passage) throw new Error('o publishes');
  const key = { ...passage.tensor, epoch: message.attempt, step: 0 };
  const [from, to] = key.range;
  const wrong = [
    ...[
      { ...key, stage: 1 },
      { ...key, index: 77 },
      { ...key, step: 1 },
      { ...key, kind: 'shared' as const },
    ],
    { ...key, range: [from, to + 1] as const },
  ];
  for (const bad of wrong)
    for (const frame of encodeTensor(bad, new Float32Array(bad.range[1] - bad.range[0]))) b.meetings.accept(O, frame);
  const words = new Float32Array(to - from);
  for (const frame of encodeTensor(key, words)) b.meetings.accept(A, frame);
  expect(b.meetings.droppedFrames).toBe(wrong.length + 1);
  for (const frame of encodeTensor(key, words)) b.meetings.accept(O, frame);
  expect(b.meetings.droppedFrames).toBe(wrong.length + 1);
});

test('[IS122] an attempt was late: who waited says whose packets had not come, else who had published nothing', async () => {
  const run = await new Run({ owned: true }).begin();
  const owners = ownersOf([], [O, A]);
  /** Until each waits for those alone who do not come, or has met. */
  const began = async (
    names: readonly PeerId[],
    waits: Readonly<Record<string, PeerId>>,
    more: Partial<MeetMessage> = {},
  ): Promise<string[]> => {
    const message = { ...run.message(owners), ...more };
    const donors = names.map((peer) => got(run.donors, peer));
    for (const donor of donors) donor.meet(message);
    const stands = ({ peer, meter, said }: MeetingDonor): boolean =>
      waits[peer] === undefined
        ? said.some((one) => one.type === 'met' && one.attempt === message.attempt)
        : meter.waits.length > 0 && meter.waits.every((from) => from === waits[peer]);
    await vi.waitUntil(() => donors.every(stands), { interval: 1, timeout: 30_000 });
    return [...run.donors].flatMap(([peer, { said }]) =>
      said
        .splice(0)
        .flatMap((one) => (one.type === 'fault' ? `${peer} ${one.attempt} ${one.reason} ${one.about}` : [])),
    );
  };
  for (const [peer, donor] of run.donors) if (peer !== O) donor.update(peer === A ? 0 : 1);
  const all = [...run.donors.keys()];
  // b does not come: nobody is told what its island did.
  const forB = { a: B, r: B, o: B };
  const forO = { b: O, r: O };
  expect(await began([A, R, O], forB)).toEqual([]);
  expect(await began(all, {}, { wasLate: true })).toEqual(['a 0 noPacket b', 'r 0 noPacket b', 'o 0 noPacket b']);
  // All have met by now; then o does not come, and publishes nothing.
  expect(await began([A, B, R], forO, { wasLate: true })).toEqual([]);
  expect(await began(all, {})).toEqual([]);
  expect(await began([A, B, R], forO)).toEqual([]);
  expect(await began(all, {}, { wasLate: true })).toEqual(['b 4 notPublished o', 'r 4 notPublished o']);
});
