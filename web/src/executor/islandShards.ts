/**
 * The shards of a run with islands. On the GPU lies what any run has there: values and moments of the island whose turn it
 * is. Those of the others, and what all islands share, lie here in main memory, at every keeper. When a turn ends what the
 * GPU has is laid aside and the next island's is written; when a round ends each keeper holds the meeting of its own
 * ranges. Rules IS in SPEC.md.
 */
import { got, invariant, overlap, type Range } from '../../../swarm/base.ts';
import { meet } from '../../../swarm/islands/outer.ts';
import { roundSteps, turnAt } from '../../../swarm/islands/rounds.ts';
import type { ShardWork } from '../../../swarm/memory/memory.ts';
import { pieces, slices } from '../../../swarm/model/layout.ts';
import { type BlockName, type BlockUse, block, type Model } from '../../../swarm/model/model.ts';
import { ISLAND_KINDS, kindAt, STATE_KINDS, type StateKind, stateKinds } from '../../../swarm/plan/stateKinds.ts';
import type { Islands, Train } from '../../../swarm/run/runFile.ts';
import type { Reading, ShardNorm, Shards, Stage, UpdateScalars } from './engine.ts';

interface IslandRun {
  readonly model: Model;
  readonly train: Train;
  readonly islands: Islands;
  readonly kept: readonly ShardWork[];
  readonly stages: ReadonlyMap<number, Stage>;
  readonly uses: ReadonlyMap<number, readonly BlockUse[]>;
}

/**
 * A meeting is so long at a time, in elements of islands: some milliseconds. The same thread sends heartbeats, and who says
 * nothing for seconds is taken for gone.
 */
const MEETING_SLICE = 250_000;

/** Of one shard, those that the GPU has not. */
type Planes = Map<StateKind, Float32Array>;

const isOnGpu = (kind: StateKind): boolean => STATE_KINDS.some((one) => one === kind);

export class IslandShards implements Shards {
  readonly bytes: number;
  readonly #gpu: Shards;
  readonly #run: IslandRun;
  readonly #planes: ReadonlyMap<ShardWork, Planes>;
  #isTorn = false;
  #sinceTask = 0;

  constructor(gpu: Shards, run: IslandRun) {
    this.bytes = gpu.bytes;
    this.#gpu = gpu;
    this.#run = run;
    const parked = stateKinds(run.islands).filter((kind) => !isOnGpu(kind));
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
    return planes.reduce((sum, { byteLength }) => sum + byteLength, 0);
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
    const { train, islands, kept } = this.#run;
    const { endsTurn, endsRound, island } = turnAt(train, step);
    if (!endsTurn) return;
    for (const work of kept) {
      const planes = got(this.#planes, work);
      await this.#park(work, planes);
      rotate(planes, islands.count, endsRound ? islands.count - island : 1);
      if (endsRound) await this.#meet(work, planes, roundSteps(train, step));
      this.#take(work, planes);
    }
  }

  async #park({ block, range: [from, to], range }: ShardWork, planes: Planes): Promise<void> {
    const state = await this.#gpu.readState(block, range, STATE_KINDS);
    for (const [at, kind] of STATE_KINDS.entries())
      planes.set(kind, state.slice(at * (to - from), (at + 1) * (to - from)));
  }

  /** The planes are in the order of islands. */
  async #meet({ block: name, range }: ShardWork, planes: Planes, steps: readonly number[]): Promise<void> {
    const { model, islands: settings } = this.#run;
    const tensors = block(model, name).tensors.flatMap(({ offset, elements }): Range[] => {
      const part = overlap(range, [offset, offset + elements]);
      return part ? [[part[0] - range[0], part[1] - range[0]]] : [];
    });
    const all = {
      shared: got(planes, 'shared'),
      velocity: got(planes, 'velocity'),
      published: planes.get('published') ?? null,
    };
    const islands = steps.map((_, island) => ({
      own: got(planes, kindAt('value', island)),
      leftOver: planes.get(kindAt('leftOver', island)) ?? null,
    }));
    for (const elements of meet(settings, tensors, all, islands, steps)) {
      this.#sinceTask += elements;
      if (this.#sinceTask < MEETING_SLICE) continue;
      this.#sinceTask = 0;
      await nextTask();
    }
    for (const island of steps.keys()) planes.set(kindAt('value', island), (all.published ?? all.shared).slice());
  }

  #take({ block, range, master, valuesStage }: ShardWork, planes: Planes): void {
    for (const kind of STATE_KINDS) {
      const plane = got(planes, kind);
      planes.delete(kind);
      for (const piece of pieces(range)) this.#gpu.writeState(block, piece, kind, within(plane, range, piece));
      if (kind !== 'value' || master === 'stage' || valuesStage === null) continue;
      // What is computed with, in halves, lies beside the master.
      const stage = got(this.#run.stages, valuesStage);
      for (const use of got(this.#run.uses, valuesStage))
        if (use.block === block)
          for (const part of slices(use, range)) stage.writeValues(block, part, within(plane, range, part));
    }
  }

  async readState(block: BlockName, range: Range, kinds: readonly StateKind[]): Promise<Float32Array<ArrayBuffer>> {
    const length = range[1] - range[0];
    const onGpu = kinds.filter(isOnGpu);
    const fromGpu = await this.#gpu.readState(block, range, onGpu);
    const planes = this.#planesOf(block, range);
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

  addOwn(block: BlockName, shard: Range, stage: Stage): void {
    this.#gpu.addOwn(block, shard, stage);
  }

  addReceived(...of: Parameters<Shards['addReceived']>): void {
    this.#gpu.addReceived(...of);
  }

  sumSquares(): Promise<readonly ShardNorm[]> {
    return this.#gpu.sumSquares();
  }

  update(scalars: UpdateScalars): void {
    this.#gpu.update(scalars);
  }

  readValues(block: BlockName, range: Range): Promise<Reading> {
    return this.#gpu.readValues(block, range);
  }

  close(): void {
    this.#gpu.close();
  }
}

/** Lets everything else that waits have its turn. Not by a timer: browsers make repeated ones wait for milliseconds. */
async function nextTask(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  const arrived = new Promise((resolve) => {
    port1.onmessage = resolve;
  });
  port2.postMessage(null);
  await arrived;
  port1.close();
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
