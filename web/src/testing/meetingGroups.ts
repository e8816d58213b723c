/** For tests of meetings: groups of keepers without GPUs, whose packets go from hand to hand. */
import { at, got, invariant, type PeerId, peerId, type Range } from '../../../swarm/base.ts';
import { roundSteps, turnAt } from '../../../swarm/islands/rounds.ts';
import type { ShardWork } from '../../../swarm/memory/memory.ts';
import { keyText, type TensorKey } from '../../../swarm/messages/frame.ts';
import type { MeetingOwners } from '../../../swarm/messages/meetingWords.ts';
import type { MeetMessage } from '../../../swarm/messages/messages.ts';
import type { Model } from '../../../swarm/model/model.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { savedAs, stateKinds } from '../../../swarm/plan/stateKinds.ts';
import { survivors } from '../../../swarm/plan/survivors.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Islands, Train } from '../../../swarm/run/runFile.ts';
import { outlineModel } from '../../../swarm/testing/randomPlan.ts';
import { meetingPassages, passagesOf } from '../../../swarm/ways/meeting.ts';
import type { MeetingWays } from '../executor/islandPackets.ts';
import { IslandShards, type RoundEnds } from '../executor/islandShards.ts';
import { type Held, Meeting } from '../executor/meeting.ts';
import { OwnedMeeting } from '../executor/ownedMeeting.ts';
import { OwnedStore } from '../executor/ownedStore.ts';
import type { Role } from '../executor/role.ts';
import { KeeperState } from './keeperState.ts';

const tensor = { name: 't', shape: [1], initial: 'normal' as const };
export const ELEMENTS = 300;
const MEETING_MODEL: Model = {
  ...outlineModel(1, false),
  blocks: [
    {
      ...{ name: 'head', elements: ELEMENTS },
      tensors: [
        { ...tensor, elements: 200, offset: 0 },
        { ...tensor, elements: 100, offset: 200 },
      ],
    },
  ],
};

/** Three islands of two steps; eight steps: the last round has one step each of the first two islands. */
export const meetingIslands = (exchange: Islands['exchange'], publish: Islands['publish']): Islands => ({
  ...{ count: 3, innerSteps: 2, overlap: false, exchange, publish },
  outer: { learningRate: 0.7, momentum: 0.5 },
});
export const SPARSE = { top: 5, chunk: 64, feedback: 0.9 };

export type Cut = readonly [keepers: string, range: Range];
export const meetingPlan = (shards: readonly Cut[], islands?: readonly number[]): Plan => ({
  ...equalSplit(outlineModel(1, false), 1, [peerId(shards[0]?.[0][0] ?? '?')]),
  state: [
    {
      block: 'head',
      shards: shards.map(([keepers, range]) => {
        const [peer = peerId('?'), ...replicas] = [...keepers].map(peerId);
        return { peer, range, replicas };
      }),
    },
  ],
  ...(islands ? { islands } : {}),
});

/** A keeper's part of a run, without a GPU. */
class Keeper {
  readonly gpu: KeeperState;
  readonly shards: IslandShards;
  readonly role: Role;
  readonly owned = new OwnedStore();

  constructor(peer: PeerId, plan: Plan, train: Train & { islands: Islands }) {
    const kept = plan.state.flatMap(({ block, shards }) =>
      shards.flatMap(({ peer: primary, range, replicas }): ShardWork[] => {
        const keepers = [primary, ...replicas];
        if (!keepers.includes(peer)) return [];
        const rest = {
          valuesStage: null,
          in: 'gpu' as const,
          isGathered: false,
          master: 'own' as const,
          isCoded: false,
          holders: [],
          sumInPlace: false,
        };
        return [{ block, range, keepers, isPrimary: peer === primary, ...rest }];
      }),
    );
    this.gpu = new KeeperState(kept);
    const { islands } = train;
    const run = {
      model: MEETING_MODEL,
      train,
      islands,
      own: plan.islands,
      owned: plan.owned,
      kept,
      stages: new Map(),
      uses: new Map(),
    };
    this.shards = new IslandShards(this.gpu.shards, run);
    for (const kind of stateKinds(islands, plan.islands, plan.owned))
      if (savedAs(kind, islands, plan.islands) === 'value' || kind === 'shared')
        for (const [{ block, range }, { value }] of this.gpu.of)
          this.shards.writeState(block, range, kind, value.slice());
    this.role = { model: MEETING_MODEL, plan, peer, kept } as unknown as Role;
  }

  async did(step: number): Promise<void> {
    this.gpu.update(step);
    await this.shards.stepDone(step);
  }

  /** By the island's number, of each kind its elements where this keeper has them. */
  async state(islands: Islands): Promise<Map<string, number[]>> {
    const { plan } = this.role;
    const kinds = stateKinds(islands, plan.islands, plan.owned);
    const found = new Map<string, number[]>();
    for (const { block, range } of this.role.kept) {
      const state = await this.shards.readState(block, range, kinds);
      const length = range[1] - range[0];
      for (const [place, kind] of kinds.entries()) {
        const number = Number(kind.split('@')[1] ?? 0);
        const isShared = ['shared', 'velocity', 'published'].includes(kind);
        const name = isShared ? kind : `${kind.split('@')[0]} of ${plan.islands?.[number] ?? number}`;
        const all = found.get(name) ?? Array.from<number>({ length: ELEMENTS });
        for (let i = 0; i < length; i++) all[range[0] + i] = at(state, place * length + i);
        found.set(name, all);
      }
    }
    return found;
  }
}

export type Tamper = (from: PeerId, to: PeerId, key: TensorKey, words: Float32Array) => Float32Array;

/** Packets on their way from keeper to keeper. */
class Post {
  readonly #there = new Map<string, Float32Array<ArrayBuffer>>();
  readonly #awaited = new Map<string, (words: Float32Array<ArrayBuffer>) => void>();
  readonly #tamper: Tamper;

  constructor(tamper: Tamper) {
    this.#tamper = tamper;
  }

  waysOf(me: PeerId) {
    return {
      send: async (to: PeerId, key: TensorKey, words: Float32Array) => {
        const name = `${me}>${to} ${keyText(key)}`;
        const sent = this.#tamper(me, to, key, words).slice();
        invariant(!this.#there.has(name), `${name} is sent twice`);
        this.#there.set(name, sent);
        this.#awaited.get(name)?.(sent);
      },
      receive: (key: TensorKey, from: PeerId) => {
        const name = `${from}>${me} ${keyText(key)}`;
        const there = this.#there.get(name);
        return there
          ? Promise.resolve(there)
          : new Promise<Float32Array<ArrayBuffer>>((resolve) => this.#awaited.set(name, resolve));
      },
    };
  }
}

const noCheckpoint = (): never => {
  throw new Error('there is no checkpoint');
};

export interface Attempt {
  readonly tamper?: Tamper;
  /** What islands ended their round with, where that is not what they have now. */
  readonly before?: ReadonlyMap<PeerId, RoundEnds>;
  readonly owners?: MeetingOwners;
  /** Of the checkpoint. */
  readonly read?: MeetingWays['read'];
  /** Of each island, where it is not what the run's rounds have. */
  readonly steps?: readonly number[];
}

/** All groups of a run, and meetings of all of them. */
export class Groups {
  readonly train: Train & { islands: Islands };
  plans: readonly Plan[];
  readonly keepers: Map<PeerId, Keeper>;
  attempt = 0;

  /** `others`: who keep nothing. */
  constructor(islands: Islands, plans: readonly Plan[], steps = 8, others: readonly PeerId[] = []) {
    this.train = { steps, islands } as Train & { islands: Islands };
    this.plans = plans;
    this.keepers = new Map(
      plans.flatMap((plan, place) => {
        const keepers = plan.state.flatMap(({ shards }) => shards.flatMap((one) => [one.peer, ...one.replicas]));
        const peers = new Set(place === 0 ? [...keepers, ...others] : keepers);
        return [...peers].map((peer) => [peer, new Keeper(peer, plan, this.train)] as const);
      }),
    );
  }

  async did(step: number): Promise<void> {
    const { island } = turnAt(this.train, step);
    for (const keeper of this.keepers.values())
      if (keeper.role.plan.islands?.includes(island) !== false) await keeper.did(step);
  }

  /** Of what it was the first keeper of, the second one is from now on; no keeper's role has changed. */
  lose(peer: PeerId): void {
    this.keepers.delete(peer);
    this.plans = this.plans.map((plan) => {
      const left = survivors(plan, (keeper) => keeper !== peer);
      if (left === null) throw new Error(`nobody has what ${peer} has`);
      return left;
    });
  }

  /** An attempt of all. */
  async hold(step: number, { tamper = (_from, _to, _key, words) => words, before, owners, read, steps }: Attempt = {}) {
    const { islands } = this.train;
    const groups = this.plans.map(({ islands: own = [], state }) => ({ epoch: 1, islands: [...own], state }));
    const message: MeetMessage = {
      ...{ type: 'meet', epoch: 1, round: 0, attempt: this.attempt++, groups },
      steps: [...(steps ?? roundSteps(this.train, step))],
      ...(owners && { owners }),
      traced: true,
    };
    const passages = passagesOf(meetingPassages(MEETING_MODEL, islands, groups, owners), message.steps);
    const post = new Post(tamper);
    return Promise.allSettled(
      [...this.keepers].map(async ([peer, { role, shards, owned }]) => {
        const ends = before?.get(peer) ?? (await shards.roundEnds());
        const ways = { ...post.waysOf(peer), read: read ?? noCheckpoint };
        const parts = { role, shards, settings: islands, message, passages, ends, ways };
        const held = await (owners ? new OwnedMeeting(parts, owners, owned) : new Meeting(parts)).hold();
        return { peer, ...held };
      }),
    );
  }

  /** What each keeper's islands ended their round with. */
  async ends(): Promise<ReadonlyMap<PeerId, RoundEnds>> {
    const all = [...this.keepers].map(async ([peer, { shards }]) => [peer, await shards.roundEnds()] as const);
    return new Map(await Promise.all(all));
  }

  /** Of the round that ended with this step, beside steps of the next one. */
  async takeIn(step: number, before: ReadonlyMap<PeerId, RoundEnds>, attempt: Attempt = {}): Promise<void> {
    for (const held of await this.hold(step, { ...attempt, before })) {
      if (held.status === 'rejected') throw held.reason;
      const { peer, outcome } = held.value;
      const { shards, owned } = got(this.keepers, peer);
      await shards.takeIn(outcome.shards);
      owned.become(outcome.owned);
    }
  }

  async meet(step: number, attempt: Attempt = {}): Promise<void> {
    const digests = new Map<string, Set<string>>();
    for (const held of await this.hold(step, attempt)) {
      if (held.status === 'rejected') throw held.reason;
      const { peer, outcome, said } = held.value;
      for (const [name, digest] of wordsIn(said)) digests.set(name, (digests.get(name) ?? new Set()).add(digest));
      const { shards, owned } = got(this.keepers, peer);
      shards.takeMeeting(outcome.shards);
      owned.become(outcome.owned);
    }
    for (const [name, said] of digests) invariant(said.size === 1, `all who say ${name} say the same`);
  }
}

/** By what they are about. */
export const wordsIn = ({
  digests,
  owned = [],
  heard = [],
}: Held['said']): (readonly [name: string, digest: string])[] => [
  ...digests.map(({ range, digest }) => [`digests ${range.join('-')}`, digest] as const),
  ...owned.map(({ range, digest }) => [`owned ${range.join('-')}`, digest] as const),
  ...heard.flatMap(({ range, islands, digests: each }) =>
    islands.map((island, place) => [`heard of ${island} ${range.join('-')}`, at(each, place)] as const),
  ),
];

const WHOLE: Cut = ['z', [0, ELEMENTS]];
/** One donor who does all islands by turns. */
export const together = (islands: Islands) => new Groups(islands, [meetingPlan([WHOLE])]);

/** One donor with one island; two donors and one who keeps copies, with the two others. */
export const apart = (islands: Islands, steps?: number) =>
  new Groups(
    islands,
    [
      meetingPlan([['s', [0, ELEMENTS]]], [1]),
      meetingPlan(
        [
          ['pr', [0, 128]],
          ['qr', [128, ELEMENTS]],
        ],
        [0, 2],
      ),
    ],
    steps,
  );
