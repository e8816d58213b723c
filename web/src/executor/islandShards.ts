/**
 * The shards of a run with islands. On the GPU lies what any run has there: values and moments of the island whose turn it
 * is. Those of the others, and what all islands share, lie here in main memory, at every keeper. When a turn ends what the
 * GPU has is laid aside and the next island's is written; when a round ends each keeper holds the meeting of its own
 * ranges, or of groups that do islands apart (meeting.ts). Rules IS in SPEC.md.
 */
import { got, invariant, overlap, type Range } from '../../../swarm/base.ts';
import { type IslandPlanes, meet, type SharedPlanes } from '../../../swarm/islands/outer.ts';
import { endsRoundOf, roundSteps, turnAt } from '../../../swarm/islands/rounds.ts';
import type { ShardWork } from '../../../swarm/memory/memory.ts';
import { pieces, slices, tensorParts } from '../../../swarm/model/layout.ts';
import { type BlockName, type BlockUse, block, type Model } from '../../../swarm/model/model.ts';
import {
  ISLAND_KINDS,
  kindAt,
  ownIslands,
  SHARED_KINDS,
  STATE_KINDS,
  type StateKind,
  stateKinds,
} from '../../../swarm/plan/stateKinds.ts';
import type { Islands, Train } from '../../../swarm/run/runFile.ts';
import { turnEnd } from '../../../swarm/schedule/lower.ts';
import type { Reading, ShardNorm, Shards, Stage, UpdateScalars } from './engine.ts';
import { LongWork } from './longWork.ts';

interface IslandRun {
  readonly model: Model;
  readonly train: Train;
  readonly islands: Islands;
  /** Those that are done here, where it is a part of them. */
  readonly own: readonly number[] | undefined;
  /** What all share lies with owners, not here. */
  readonly owned?: true | undefined;
  readonly kept: readonly ShardWork[];
  readonly stages: ReadonlyMap<number, Stage>;
  readonly uses: ReadonlyMap<number, readonly BlockUse[]>;
}

/** Of one shard, those that the GPU has not. */
type Planes = Map<StateKind, Float32Array>;

/** Of one shard, at a meeting of groups. */
export interface MeetingPlanes extends SharedPlanes {
  /** The group's own. */
  readonly islands: readonly IslandPlanes[];
}

/** The same where what islands share lies with owners. */
export type OwnPlanes = Pick<MeetingPlanes, 'islands'> & { readonly published: Float32Array };

/** What a meeting came to, of one shard. Null: with owners. */
export interface MetPlanes extends Pick<MeetingPlanes, 'published' | 'islands'> {
  readonly shared: Float32Array | null;
  readonly velocity: Float32Array | null;
}

/** By shard, what each island of the group has of it. */
export type RoundEnds = ReadonlyMap<ShardWork, readonly Float32Array[]>;

/** The tensors within a part of a range, as places in a plane of that range. */
export const planeTensors = (model: Model, name: BlockName, [first]: Range, part: Range): Range[] =>
  tensorParts(block(model, name), part).map(([from, to]): Range => [from - first, to - first]);

const isOnGpu = (kind: StateKind): boolean => STATE_KINDS.some((one) => one === kind);

export class IslandShards implements Shards {
  readonly bytes: number;
  readonly #gpu: Shards;
  readonly #run: IslandRun;
  readonly #planes: ReadonlyMap<ShardWork, Planes>;
  #isTorn = false;
  /** Among the islands here, the one that the GPU has: counted from where `roundEnds` was asked for last. */
  #turn = 0;
  readonly #work = new LongWork();

  constructor(gpu: Shards, run: IslandRun) {
    this.bytes = gpu.bytes;
    this.#gpu = gpu;
    this.#run = run;
    const parked = stateKinds(run.islands, run.own, run.owned).filter((kind) => !isOnGpu(kind));
    this.#planes = new Map(
      run.kept.map((work) => [
        work,
        new Map(parked.map((kind) => [kind, new Float32Array(work.range[1] - work.range[0])])),
      ]),
    );
  }

  /** Of main memory, between steps. */
  get hostBytes(): number {
    const planes = [...this.#planes.values()].flatMap((own) => [...own.values()]);
    return planes.reduce((sum, { byteLength }) => sum + byteLength, this.#gpu.hostBytes);
  }

  /** A switch or a meeting failed on its way: what is here now is the state after no step. */
  get isTorn(): boolean {
    return this.#isTorn;
  }

  /** After the update of this step: where it ended a turn another island's state is on the GPU then. */
  async stepDone(step: number): Promise<void> {
    try {
      await this.#endTurn(step);
    } catch (cause) {
      this.#isTorn = true;
      throw cause;
    }
  }

  async #endTurn(step: number): Promise<void> {
    const { train, islands, own, kept } = this.#run;
    if (islands.count === 'auto') return; // one island, and its meetings are apart from its steps
    const turn = turnAt(train, step);
    if (turnEnd(train, turn, own) === null) return;
    const all = ownIslands(islands, own);
    // Each round begins with the first one.
    const by = endsRoundOf(train, step, own) ? all.length - all.indexOf(turn.island) : 1;
    for (const work of kept) {
      const planes = got(this.#planes, work);
      await this.#park(work, planes);
      rotate(planes, all.length, by);
      if (turn.endsRound && !own) await this.#meet(work, planes, roundSteps(train, step));
      this.#take(work, planes);
    }
    this.#turn = (this.#turn + by) % all.length;
  }

  async #park({ block, range: [from, to], range }: ShardWork, planes: Planes): Promise<void> {
    const state = await this.#gpu.readState(block, range, STATE_KINDS);
    for (const [at, kind] of STATE_KINDS.entries())
      planes.set(kind, state.slice(at * (to - from), (at + 1) * (to - from)));
  }

  /** The planes are in the order of islands. */
  async #meet({ block: name, range }: ShardWork, planes: Planes, steps: readonly number[]): Promise<void> {
    const { model, islands: settings } = this.#run;
    const tensors = planeTensors(model, name, range, range);
    const all = {
      shared: got(planes, 'shared'),
      velocity: got(planes, 'velocity'),
      published: planes.get('published') ?? null,
    };
    const islands = steps.map((_, island) => ({
      own: got(planes, kindAt('value', island)),
      leftOver: planes.get(kindAt('leftOver', island)) ?? null,
    }));
    for (const elements of meet(settings, tensors, all, islands, steps)) await this.#work.did(elements);
    for (const island of steps.keys()) planes.set(kindAt('value', island), (all.published ?? all.shared).slice());
  }

  #take(work: ShardWork, planes: Planes): void {
    for (const kind of STATE_KINDS) {
      const plane = got(planes, kind);
      planes.delete(kind);
      this.#write(work, kind, plane);
    }
  }

  #write({ block, range, master, valuesStage }: ShardWork, kind: StateKind, plane: Float32Array): void {
    for (const piece of pieces(range)) this.#gpu.writeState(block, piece, kind, within(plane, range, piece));
    if (kind !== 'value' || master === 'stage' || valuesStage === null) return;
    // What is computed with, in halves, lies beside the master.
    const stage = got(this.#run.stages, valuesStage);
    for (const use of got(this.#run.uses, valuesStage))
      if (use.block === block)
        for (const part of slices(use, range)) stage.writeValues(block, part, within(plane, range, part));
  }

  /**
   * What each island has at the end of its round, by shard and in their order; it stays as it is while the next round goes on.
   */
  async roundEnds(): Promise<RoundEnds> {
    this.#turn = 0;
    const ends = new Map<ShardWork, readonly Float32Array[]>();
    for (const work of this.#run.kept) {
      const value = await this.#gpu.readState(work.block, work.range, ['value']);
      const planes = got(this.#planes, work);
      ends.set(
        work,
        this.#own.map((_, turn) => (turn === 0 ? value : got(planes, kindAt('value', turn)))),
      );
    }
    return ends;
  }

  /** Copies of what a meeting of groups is about. */
  meetingPlanes(work: ShardWork, ends: RoundEnds): MeetingPlanes {
    const planes = got(this.#planes, work);
    return {
      shared: got(planes, 'shared').slice(),
      velocity: got(planes, 'velocity').slice(),
      published: planes.get('published')?.slice() ?? null,
      islands: this.#islandPlanes(work, ends),
    };
  }

  /** The same where what islands share lies with owners. */
  ownPlanes(work: ShardWork, ends: RoundEnds): OwnPlanes {
    const published = got(got(this.#planes, work), 'published').slice();
    return { published, islands: this.#islandPlanes(work, ends) };
  }

  #islandPlanes(work: ShardWork, ends: RoundEnds): IslandPlanes[] {
    const planes = got(this.#planes, work);
    return got(ends, work).map((own, island) => ({
      own,
      leftOver: planes.get(kindAt('leftOver', this.#turnOf(island)))?.slice() ?? null,
    }));
  }

  get #own(): readonly number[] {
    return ownIslands(this.#run.islands, this.#run.own);
  }

  /** Of the n-th island here: how many turns until it is done. */
  #turnOf(island: number): number {
    return (island - this.#turn + this.#own.length) % this.#own.length;
  }

  /**
   * What came out of a meeting is the state, beside which the islands went on: what each did since it ended that round stays,
   * on top of it. Of who did nothing since, that is what was published, to the last bit.
   */
  async takeIn(outcomes: ReadonlyMap<ShardWork, MetPlanes>): Promise<void> {
    this.#isTorn = true;
    for (const [work, outcome] of outcomes) {
      const planes = got(this.#planes, work);
      const base = begins(outcome);
      for (const [island, { own: before }] of outcome.islands.entries()) {
        const turn = this.#turnOf(island);
        const now =
          turn === 0
            ? await this.#gpu.readState(work.block, work.range, ['value'])
            : got(planes, kindAt('value', turn));
        const grown = now.map((value, i) => {
          const old = before[i] ?? 0;
          return value === old ? (base[i] ?? 0) : value + Math.fround((base[i] ?? 0) - old);
        });
        if (turn === 0) this.#write(work, 'value', grown);
        else planes.set(kindAt('value', turn), grown);
      }
      this.#share(planes, outcome);
    }
    this.#isTorn = false;
  }

  /** What came out of that meeting is the state now, and every island begins its next round with it. Moments stay. */
  takeMeeting(outcomes: ReadonlyMap<ShardWork, MetPlanes>): void {
    this.#isTorn = true;
    for (const [work, outcome] of outcomes) {
      const planes = got(this.#planes, work);
      const base = begins(outcome);
      for (const turn of outcome.islands.keys())
        if (turn === 0) this.#write(work, 'value', base);
        else planes.set(kindAt('value', turn), base.slice());
      this.#share(planes, outcome);
    }
    this.#isTorn = false;
  }

  /** Where owners have what is shared it is here only for who saves it, until the next meeting is over. */
  #share(planes: Planes, { islands, ...met }: MetPlanes): void {
    for (const kind of SHARED_KINDS) {
      const plane = met[kind];
      if (plane) planes.set(kind, plane);
      else planes.delete(kind);
    }
    for (const [island, { leftOver }] of islands.entries())
      if (leftOver) planes.set(kindAt('leftOver', this.#turnOf(island)), leftOver);
  }

  async readState(block: BlockName, range: Range, kinds: readonly StateKind[]): Promise<Float32Array<ArrayBuffer>> {
    const length = range[1] - range[0];
    const onGpu = kinds.filter(isOnGpu);
    const fromGpu = await this.#gpu.readState(block, range, onGpu);
    // A part of a shard is read of what the GPU has alone.
    const planes = onGpu.length < kinds.length ? this.#planesOf(block, range) : new Map();
    const state = new Float32Array(kinds.length * length);
    for (const [at, kind] of kinds.entries()) {
      const place = onGpu.indexOf(kind);
      const plane = place < 0 ? got(planes, kind) : fromGpu.subarray(place * length, (place + 1) * length);
      state.set(plane, at * length);
    }
    return state;
  }

  writeState(block: BlockName, range: Range, kind: StateKind, values: Float32Array): void {
    if (isOnGpu(kind)) {
      this.#gpu.writeState(block, range, kind, values);
      return;
    }
    for (const [work, planes] of this.#planes) {
      const part = work.block === block ? overlap(work.range, range) : null;
      if (part) got(planes, kind).set(within(values, range, part), part[0] - work.range[0]);
    }
  }

  #planesOf(block: BlockName, [from]: Range): Planes {
    const work = this.#run.kept.find((one) => one.block === block && one.range[0] === from);
    invariant(work, `no shard ${block} from ${from} here`);
    return got(this.#planes, work);
  }

  begin(): void {
    this.#gpu.begin();
  }

  addOwn(block: BlockName, shard: Range, stage: Stage): void | Promise<void> {
    return this.#gpu.addOwn(block, shard, stage);
  }

  addReceived(...of: Parameters<Shards['addReceived']>): void | Promise<void> {
    return this.#gpu.addReceived(...of);
  }

  sumSquares(): Promise<readonly ShardNorm[]> {
    return this.#gpu.sumSquares();
  }

  update(scalars: UpdateScalars): void | Promise<void> {
    return this.#gpu.update(scalars);
  }

  written(stage: number, block: BlockName): Promise<void> | null {
    return this.#gpu.written?.(stage, block) ?? null;
  }

  readValues(block: BlockName, range: Range): Promise<Reading> {
    return this.#gpu.readValues(block, range);
  }

  packValues(block: BlockName, range: Range): Promise<Reading> {
    return this.#gpu.packValues(block, range);
  }

  close(): void {
    this.#gpu.close();
  }
}

/** What every island begins its next round with. */
function begins({ published, shared }: MetPlanes): Float32Array {
  const base = published ?? shared;
  invariant(base, 'what lies with owners is published');
  return base;
}

const within = (values: Float32Array, [from]: Range, part: Range): Float32Array =>
  values.subarray(part[0] - from, part[1] - from);

/** Of the islands' planes the n-th becomes the first. */
function rotate(planes: Planes, count: number, by: number): void {
  const before = new Map(planes);
  for (const kind of ISLAND_KINDS)
    for (let turn = 0; turn < count; turn++) {
      const plane = before.get(kindAt(kind, (turn + by) % count));
      if (plane) planes.set(kindAt(kind, turn), plane);
    }
}
