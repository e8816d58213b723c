import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type PeerId, peerId } from '../../swarm/base.ts';
import type { RelayedSlice } from '../../swarm/coordinator/events.ts';
import { encodeTensor, FRAME_BYTES } from '../../swarm/messages/frame.ts';
import {
  creditBytes,
  decodeEnvelope,
  type Envelope,
  encodeEnvelope,
  RELAY_WINDOW_BYTES,
} from '../../swarm/messages/relay.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { outlineModel } from '../../swarm/testing/randomPlan.ts';
import { ringReplicas } from '../../swarm/testing/ringReplicas.ts';
import type { Passage } from '../../swarm/ways/passage.ts';
import { stepTensors } from '../../swarm/ways/tensors.ts';
import { Pairs } from './pairs.ts';
import { Relay } from './relay.ts';

const ALICE = peerId('alice');
const BOB = peerId('bob');
const CAROL = peerId('carol');

/** A socket that takes what it is given when the test says so. */
class Port {
  readonly got: Envelope[] = [];
  readonly #taken: (() => void)[] = [];

  sendBytes(bytes: Uint8Array, taken?: () => void): void {
    const decoded = decodeEnvelope(new Uint8Array(bytes));
    if (!decoded.ok) throw new Error(decoded.reason);
    this.got.push(decoded.value);
    if (taken) this.#taken.push(taken);
  }

  take(): void {
    for (let taken = this.#taken.shift(); taken; taken = this.#taken.shift()) taken();
  }

  of(kind: Envelope['kind']): Envelope[] {
    return this.got.filter((envelope) => envelope.kind === kind);
  }
}

function relayed(...members: PeerId[]) {
  const inPlan = (peer: PeerId): boolean => members.includes(peer);
  const isPair = (from: PeerId, to: PeerId): boolean => inPlan(from) && inPlan(to);
  const relay = new Relay({ isPair, take: (from, to) => isPair(from, to), stepsSince: () => 0 });
  const ports = new Map([ALICE, BOB, CAROL].map((peer) => [peer, new Port()]));
  for (const [peer, port] of ports) relay.connected(peer, port);
  const port = (peer: PeerId): Port => {
    const found = ports.get(peer);
    if (!found) throw new Error(`no port of ${peer}`);
    return found;
  };
  const frame = (to: PeerId, bytes = FRAME_BYTES) => encodeEnvelope('frame', to, new Uint8Array(bytes).fill(7));
  return { relay, port, frame };
}

describe('Relay', () => {
  test('[WP9] names the sender in place of the receiver, changes nothing else, credits what was taken', () => {
    const { relay, port, frame } = relayed(ALICE, BOB);
    expect(relay.accept(ALICE, frame(BOB, 100))).toBeNull();
    expect(port(BOB).got).toEqual([{ kind: 'frame', peer: ALICE, content: new Uint8Array(100).fill(7) }]);
    expect(port(ALICE).got).toEqual([]);
    port(BOB).take();
    expect(port(ALICE).of('credit').map(creditBytes)).toEqual([100]);
    expect(relay.counts).toEqual({ frames: 1, bytes: 100, droppedFrames: 0 });
  });

  test('[WP22] forwards only between the donors of the plan; the rest is dropped, counted and credited', () => {
    const { relay, port, frame } = relayed(ALICE, BOB);
    expect(relay.accept(ALICE, frame(CAROL, 100))).toBeNull();
    expect(relay.accept(CAROL, frame(BOB, 100))).toBeNull();
    expect(relay.accept(ALICE, frame(peerId('nobody'), 100))).toBeNull();
    expect([...port(BOB).got, ...port(CAROL).of('frame')]).toEqual([]);
    expect(relay.counts.droppedFrames).toBe(3);
    expect(port(ALICE).of('credit')).toHaveLength(2);
  });

  test('[WP10] who sends past its window is refused', () => {
    const { relay, frame } = relayed(ALICE, BOB);
    for (let i = 0; i < RELAY_WINDOW_BYTES / FRAME_BYTES; i++) expect(relay.accept(ALICE, frame(BOB))).toBeNull();
    expect(relay.accept(ALICE, frame(BOB, 1))).toBe('tooManyMessages');
  });

  test('[WP10] a donor that does not read holds up what is for it alone, within the windows', () => {
    const { relay, port, frame } = relayed(ALICE, BOB, CAROL);
    for (let i = 0; i < 4; i++) for (const from of [ALICE, CAROL]) relay.accept(from, frame(BOB));
    for (let i = 0; i < 4; i++) relay.accept(BOB, frame(ALICE));
    expect(port(ALICE).of('frame')).toHaveLength(4);
    expect(port(BOB).of('frame')).toHaveLength(8);
    for (let i = 0; i < 4; i++) port(BOB).take();
    expect(port(ALICE).of('credit')).toHaveLength(4);
    for (let i = 0; i < 4; i++) expect(relay.accept(ALICE, frame(BOB))).toBeNull();
  });

  test('[WP10] a receiver that goes gives its senders their windows back', () => {
    const { relay, port, frame } = relayed(ALICE, BOB);
    for (let i = 0; i < 4; i++) relay.accept(ALICE, frame(BOB));
    port(BOB).take();
    relay.gone(BOB);
    for (let i = 0; i < 10; i++) expect(relay.accept(ALICE, frame(BOB))).toBeNull();
    expect(relay.counts.droppedFrames).toBe(10);
    expect(port(ALICE).of('credit')).toHaveLength(14);
  });

  test('[WP9] passes pings and pongs on; a credit of a donor, or what is no envelope, is malformed', () => {
    const { relay, port } = relayed(ALICE, BOB);
    relay.accept(ALICE, encodeEnvelope('ping', BOB, new Uint8Array(8)));
    expect(port(BOB).got).toMatchObject([{ kind: 'ping', peer: ALICE }]);
    expect(relay.accept(ALICE, encodeEnvelope('credit', BOB, new Uint8Array(4)))).toBe('malformed');
    expect(relay.accept(ALICE, new Uint8Array(99))).toBe('malformed');
  });

  test('[CO52] looks at what a watched pair sends, and tells of each direction once', () => {
    const { relay } = relayed(ALICE, BOB, CAROL);
    const told: string[] = [];
    const watch = (epoch: number): void =>
      relay.watch([[BOB, ALICE]], epoch, {
        unsound: (from, to) => told.push(`${epoch}: ${from} to ${to}`),
        slice: () => undefined,
      });
    const send = (from: PeerId, to: PeerId, value: number, epoch = 7): void => {
      const key = { kind: 'activation', epoch, step: 3, stage: 1, index: 0, range: [0, 20_000] } as const;
      const values = new Float32Array(20_000).fill(1);
      values[19_999] = value;
      for (const message of encodeTensor(key, values))
        expect(relay.accept(from, encodeEnvelope('frame', to, new Uint8Array(message)))).toBeNull();
    };
    watch(7);
    send(ALICE, BOB, 1);
    send(ALICE, CAROL, Number.NaN);
    send(ALICE, BOB, Number.NaN, 6);
    expect(told).toEqual([]);
    send(BOB, ALICE, Number.NaN);
    expect(told).toEqual(['7: bob to alice']);
    const again = relayed(ALICE, BOB);
    again.relay.watch([[ALICE, BOB]], 7, {
      unsound: (from, to) => told.push(`again: ${from} to ${to}`),
      slice: () => undefined,
    });
    for (const time of [1, 2]) {
      const key = { kind: 'slice', epoch: 7, step: time, stage: 0, index: 0, range: [0, 4] } as const;
      const [message] = encodeTensor(key, new Float32Array([1, 2, 3, Number.POSITIVE_INFINITY]));
      again.relay.accept(ALICE, encodeEnvelope('frame', BOB, new Uint8Array(message ?? new ArrayBuffer(1))));
    }
    expect(told).toEqual(['7: bob to alice', 'again: alice to bob']);
    expect(again.relay.accept(ALICE, again.frame(BOB, 10))).toBeNull();
  });

  test('[RE18] tells of each slice that went by in whole, and refuses whose frames are not in order', () => {
    const { relay, port } = relayed(ALICE, BOB, CAROL);
    const told: RelayedSlice[] = [];
    const pairs = [[ALICE, BOB], [ALICE, CAROL]] as const; // biome-ignore format: one line
    relay.watch(pairs, 7, { unsound: () => undefined, slice: (slice) => told.push(slice) });
    const send = (to: PeerId, kind: 'slice' | 'activation', step: number, last: number): void => {
      const values = new Float32Array(20_000).fill(1);
      values[19_999] = last;
      for (const message of encodeTensor({ kind, epoch: 7, step, stage: 0, index: 2, range: [0, 20_000] }, values))
        expect(relay.accept(ALICE, encodeEnvelope('frame', to, new Uint8Array(message)))).toBeNull();
    };
    const digestOf = (last: number): string => {
      const hash = createHash('sha256').update(new Uint8Array(new Float32Array(20_000).fill(1, 0, 19_999).fill(last, 19_999).buffer)); // biome-ignore format: one line
      return hash.digest('base64url').slice(0, 21);
    };
    for (const to of [BOB, CAROL]) send(to, 'slice', 1, 1);
    send(BOB, 'activation', 1, 2);
    send(CAROL, 'slice', 2, 3);
    const seen = told.map(({ digest, ...of }) => ({ ...of, digest: digest.slice(0, 21) }));
    const of = { from: ALICE, slice: '0/2/0-20000' };
    expect(seen).toEqual([
      { ...of, step: 1, to: BOB, digest: digestOf(1), squares: 20_000 },
      { ...of, step: 1, to: CAROL, digest: digestOf(1), squares: 20_000 },
      { ...of, step: 2, to: CAROL, digest: digestOf(3), squares: 20_008 },
    ]);
    expect(told.every(({ digest }) => /^[\w-]{22}$/.test(digest))).toBe(true);
    const key = { kind: 'slice', epoch: 7, step: 3, stage: 0, index: 2, range: [0, 20_000] } as const;
    const [first, second] = encodeTensor(key, new Float32Array(20_000));
    const accept = (message: ArrayBuffer | undefined) =>
      relay.accept(ALICE, encodeEnvelope('frame', BOB, new Uint8Array(message ?? new ArrayBuffer(1))));
    expect(accept(second)).toBe('faulty');
    port(BOB).take();
    expect([accept(first), accept(first)]).toEqual([null, 'faulty']);
  });

  describe('slices of the plan in force', () => {
    const MODEL = outlineModel(2, false);
    const SIZES = { model: MODEL, sequence: 5, wire: 'f32', asked: 'f32', rounds: 0 } as const;
    /** Alice computes the first layer, Bob keeps it, and so does Carol. */
    const PLAN = ringReplicas(equalSplit(MODEL, 4, [ALICE, BOB, CAROL]), 2);
    const SLICES = stepTensors(MODEL, PLAN, SIZES).filter(({ tensor }) => tensor.kind === 'slice');

    /** All pairs are watched, and steps 3 to 4 + `more` of epoch 7 begun. */
    function watched(more = 0) {
      const pairs = new Pairs(SIZES);
      const relay = new Relay(pairs);
      for (const peer of [ALICE, BOB, CAROL]) relay.connected(peer, new Port());
      const source = { from: 'checkpoint', step: 3 } as const;
      const told: RelayedSlice[] = [];
      const all = [[ALICE, BOB], [ALICE, CAROL], [BOB, CAROL]] as const; // biome-ignore format: one line
      relay.watch(all, 7, { unsound: () => undefined, slice: (slice) => told.push(slice) });
      pairs.told(ALICE, { type: 'prepare', epoch: 7, generation: 0, step: 3, source, plan: PLAN }, 0);
      for (let step = 3; step <= 4 + more; step++) pairs.told(ALICE, { type: 'start', epoch: 7, step }, 0);
      const send = ({ from, to, tensor }: Passage, step: number, value: number, epoch = 7) => {
        const [message] = encodeTensor({ ...tensor, epoch, step }, new Float32Array(tensor.range[1]).fill(value));
        return relay.accept(from, encodeEnvelope('frame', to, new Uint8Array(message ?? new ArrayBuffer(1))));
      };
      return { send, told };
    }
    /** The same slice of one sender to two keepers. */
    function toBoth(): [Passage, Passage] {
      for (const one of SLICES) {
        const other = SLICES.find(
          ({ from, to, tensor }) =>
            from === one.from && to !== one.to && JSON.stringify(tensor) === JSON.stringify(one.tensor),
        );
        if (other) return [one, other];
      }
      throw new Error('no slice goes to two keepers');
    }
    const [ONE, OTHER] = toBoth();

    test('[RE18] what nobody asked for ends who sends it, and blinds nobody', () => {
      const unasked: Passage['tensor'] = { ...ONE.tensor, range: [0, 1] };
      for (const [tensor, step] of [
        [ONE.tensor, 1_000_000],
        [ONE.tensor, 5],
        [ONE.tensor, 2],
        [{ ...ONE.tensor, stage: ONE.tensor.stage + 1 }, 4],
        [{ ...ONE.tensor, index: 60_000 }, 4],
        [unasked, 4],
      ] as const) {
        const { send, told } = watched();
        expect(send(ONE, 4, 1)).toBeNull();
        expect(send({ ...ONE, tensor }, step, 1), `${JSON.stringify(tensor)} of step ${step}`).toBe('faulty');
        expect(send(OTHER, 4, 2)).toBeNull();
        expect(told.map(({ to }) => to)).toEqual([ONE.to, OTHER.to]);
      }
      // Of another epoch it is on its way still, and is dropped where it arrives.
      expect(watched().send({ ...ONE, tensor: unasked }, 1, 1, 6)).toBeNull();
    });

    test('[RE18] a slice is compared as long as its receiver may be current', () => {
      for (const [more, seen] of [
        [0, true],
        [2, true],
        [3, false],
      ] as const) {
        // biome-ignore format: one line
        const { send, told } = watched(more);
        expect(send(ONE, 4, 1)).toBeNull();
        for (let step = 5; step <= 4 + more; step++) expect(send(ONE, step, 1)).toBeNull();
        expect(send(OTHER, 4, 2)).toBeNull();
        expect(
          told.some(({ to, step }) => to === OTHER.to && step === 4),
          `${more} steps later`,
        ).toBe(seen);
      }
    });
  });

  test('[CO95] says which tensors of a watched pair went by whole, who takes nothing, and whether anything moves', () => {
    const { relay, port } = relayed(ALICE, BOB);
    const nothing = { unsound: () => undefined, slice: () => undefined };
    expect(relay.seen).toBeNull();
    relay.watch([[ALICE, BOB]], 7, nothing);
    const key = { kind: 'activation', epoch: 7, step: 3, stage: 1, index: 0, range: [0, 100_000] } as const;
    const frames = encodeTensor(key, new Float32Array(100_000));
    const send = (message: ArrayBuffer | undefined): void => {
      if (message) relay.accept(ALICE, encodeEnvelope('frame', BOB, new Uint8Array(message)));
    };
    for (const message of frames.slice(0, 4)) send(message);
    expect(relay.seen).toEqual({ epoch: 7, whole: [], full: [[ALICE, BOB]], moved: 4 });
    port(BOB).take();
    expect(relay.seen).toMatchObject({ full: [], moved: 8 });
    send(frames[3]); // once more: it is not the next one
    for (const message of frames.slice(4)) send(message);
    expect(relay.seen?.whole).toEqual(['3 alice bob activation/1/0/0-100000']);
    port(BOB).take();
    relay.watch([[ALICE, BOB]], 8, nothing);
    expect(relay.seen).toEqual({ epoch: 8, whole: [], full: [], moved: 0 });
  });
});
