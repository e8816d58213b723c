/** For tests of meetings: a donor's side of them, without a GPU, and what carries its frames. */
import { at, type PeerId, type Range } from '../../../swarm/base.ts';
import { shardsOf } from '../../../swarm/memory/memory.ts';
import { NO_EPOCH } from '../../../swarm/messages/meetingWords.ts';
import type { MeetMessage, PeerMessage } from '../../../swarm/messages/messages.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { outlineModel } from '../../../swarm/testing/randomPlan.ts';
import type { Stage } from '../executor/engine.ts';
import { Epochs } from '../executor/epochs.ts';
import { Holding } from '../executor/holding.ts';
import type { JoinedRun } from '../executor/joinedRun.ts';
import { Meetings } from '../executor/meetings.ts';
import { Meter } from '../executor/meter.ts';
import { Neighbours } from '../executor/neighbours.ts';
import type { Engine } from '../executor/role.ts';
import type { RunFiles } from '../executor/runFiles.ts';
import { Traffic } from '../executor/traffic.ts';
import { initialValue, KeeperState } from './keeperState.ts';

export const OUTLINE = outlineModel(1, false);
const STILL = { now: () => 0, wait: async () => undefined };

/** Which also says for whom its donor waits. */
class WaitMeter extends Meter {
  /** Once for each tensor. */
  readonly waits: PeerId[] = [];

  override async awaited<T>(from: PeerId, coming: Promise<T>): Promise<T> {
    this.waits.push(from);
    try {
      return await super.awaited(from, coming);
    } finally {
      this.waits.splice(this.waits.indexOf(from), 1);
    }
  }
}

/** Whose work is its island's updates, and meetings. */
export class MeetingDonor {
  readonly said: PeerMessage[] = [];
  readonly holding = new Holding();
  readonly gpus: KeeperState[] = [];
  readonly meter = new WaitMeter(STILL.now, () => undefined);
  readonly epochs: Epochs;
  readonly meetings: Meetings;
  readonly plan: Plan;
  readonly epoch: number;
  readonly #run: JoinedRun;
  readonly peer: PeerId;

  constructor(peer: PeerId, post: MeetingPost, train: Train, plan: Plan, epoch: number, state?: RunFiles['state']) {
    this.peer = peer;
    this.plan = plan;
    this.epoch = epoch;
    const page = { sendServer: (message: PeerMessage) => void this.said.push(message) };
    const ways = {
      sendFrame: async (to: PeerId, message: ArrayBuffer) => post.carry(peer, to, message),
      connect: async () => undefined,
    };
    this.epochs = new Epochs((epoch, reason, detail, about, attempt) =>
      page.sendServer({ type: 'fault', epoch, reason, detail, about, attempt }),
    );
    const traffic = new Traffic(STILL);
    this.meetings = new Meetings({
      ...{ page, ways, traffic, epochs: this.epochs, holding: this.holding },
      ...{ meter: this.meter, neighbours: new Neighbours(ways, traffic) },
      ...{ run: () => this.#run, links: () => [], send: async () => undefined, advance: () => undefined },
      receive: async () => new Float32Array(1),
      bar: (from) =>
        page.sendServer({ type: 'fault', epoch: this.epoch, reason: 'badFrame', detail: 'flood', about: from }),
    });
    const engine = {
      ...{ wire: 'f32', asked: 'f32', compute: 'f32' },
      warm: async () => undefined,
      stage: async () => ({ bytes: 0, close: () => undefined, writeValues: () => undefined }) as unknown as Stage,
      shards: async () => {
        this.gpus.push(new KeeperState(shardsOf(OUTLINE, this.plan, peer)));
        return at(this.gpus, this.gpus.length - 1).shards;
      },
    } as unknown as Engine;
    const sizes = { model: OUTLINE, sequence: 5, wire: 'f32', asked: 'f32', islands: train.islands } as const;
    this.#run = { peer, model: OUTLINE, sizes, engine, facts: { train }, files: { state } } as unknown as JoinedRun;
  }

  /** Told of its plan, of a run that went back so often. */
  prepared(generation: number): void {
    this.meetings.prepare(this.#run, { plan: this.plan, generation });
  }

  async begin(): Promise<void> {
    const { epoch, plan } = this;
    if (epoch === NO_EPOCH) return;
    this.prepared(0);
    this.epochs.begin(epoch, null, async () => {
      const { engine } = this.#run;
      const target = {
        model: OUTLINE,
        train: this.#run.facts.train,
        engine,
        peer: this.peer,
        plan,
        epoch,
        generation: 0,
        step: 0,
      };
      await this.holding.arrive(
        target,
        { from: 'checkpoint', step: 0 },
        {
          connect: async () => undefined,
          read: async (_checkpoint: number, _block: string, kind: string, [from, to]: Range) =>
            Float32Array.from({ length: to - from }, (_, i) =>
              ['value', 'shared'].includes(kind) ? initialValue(from + i) : 0,
            ),
          readBase: async () => undefined,
          send: async () => undefined,
          receive: async () => new Float32Array(1),
        },
      );
    });
    await this.epochs.current?.work;
  }

  /** Its island's only step of a round. */
  update(step: number): void {
    at(this.gpus, this.gpus.length - 1).update(step);
    this.holding.added(step + 1);
    this.holding.committed(step + 1);
  }

  meet(message: MeetMessage): void {
    this.meetings.meet({ ...message, epoch: this.epoch });
  }

  over(round: number): void {
    this.meetings.over({ type: 'meetingOver', epoch: this.epoch, round });
  }

  /** The same of a meeting that was held beside steps, before this one. */
  takeIn(round: number, end: number): void {
    this.meetings.over({ type: 'meetingOver', epoch: this.epoch, round, end, beside: true });
  }

  async settled(): Promise<void> {
    await this.epochs.current?.work;
  }

  lose(peer: PeerId): void {
    this.meetings.linkLost(peer);
  }

  async shared(): Promise<number[]> {
    const { role } = this.holding;
    const all = (role?.kept ?? []).map(({ block, range }) => role?.shards.readState(block, range, ['value', 'shared']));
    return (await Promise.all(all)).flatMap((state) => [...(state ?? [])]);
  }
}

/** Frames go at once, unless they are held back. */
export class MeetingPost {
  readonly donors = new Map<PeerId, MeetingDonor>();
  held: { readonly to: PeerId; deliver(): void }[] | null = null;

  carry(from: PeerId, to: PeerId, message: ArrayBuffer): void {
    const deliver = (): void => this.donors.get(to)?.meetings.accept(from, message.slice());
    if (this.held) this.held.push({ to, deliver });
    else deliver();
  }
}
