import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { type PeerId, peerId, type Range } from '../../../swarm/base.ts';
import type { PeerMessage } from '../../../swarm/messages/messages.ts';
import { peerMessageSchema } from '../../../swarm/messages/messages.ts';
import { STATE_KINDS } from '../../../swarm/plan/stateKinds.ts';
import { isNear, sketchOf } from '../../../swarm/run/stateSketch.ts';
import { Checkpointing } from './checkpointing.ts';
import type { Role } from './role.ts';

const RANGE: Range = [64, 1_064];
const STATE = Float32Array.from({ length: 3_000 }, (_, i) => Math.sin(i) / (1 + (i % 7)));
const sha256 = (state: Float32Array<ArrayBuffer>) =>
  createHash('sha256').update(new Uint8Array(state.buffer)).digest('hex');

/** Of one shard, at these keepers; `uploader`: a replica that uploads it. */
const roleOf = (peer: PeerId, [primary, ...replicas]: readonly PeerId[], uploader?: PeerId): Role => {
  const keepers = [primary, ...replicas];
  const shard = { peer: primary, range: RANGE, replicas, ...(uploader && { uploader }) };
  const shards = { readState: async () => STATE.slice() };
  const plan = { state: [{ block: 'layer.0', shards: [shard] }] };
  const kept = [{ block: 'layer.0', range: RANGE, keepers, isPrimary: peer === primary }];
  return { kept, shards, saved: STATE_KINDS, plan, peer } as unknown as Role; // what a checkpoint asks of it
};

test('[RE84] a replica tells the hash that its primary’s upload has where the bits are the same, and its sums', async () => {
  const [a, b] = [peerId('a'), peerId('b')];
  const uploads: string[] = [];
  const said: PeerMessage[] = [];
  const tell = (message: PeerMessage) => void said.push(message);
  const files = {
    async upload(state: Float32Array<ArrayBuffer>) {
      uploads.push(sha256(state));
      return sha256(state);
    },
  };
  for (const role of [roleOf(a, [a, b]), roleOf(b, [a, b])]) {
    const checkpointing = new Checkpointing();
    await new Promise<void>((resolve) => {
      const told = (message: PeerMessage) => resolve(tell(message));
      void checkpointing.save(role, { epoch: 1, step: 4 }, files, told);
    });
  }
  expect(uploads).toHaveLength(1);
  const [first, second] = said.map((message) => peerMessageSchema.parse(JSON.parse(JSON.stringify(message))));
  expect(first).toMatchObject({ type: 'uploaded', step: 4, shards: [{ block: 'layer.0', hash: sha256(STATE) }] });
  if (second?.type !== 'uploaded') throw new Error('a replica tells what it has');
  const [copy] = second.copies ?? [];
  expect([second.shards, copy?.hash, copy?.range]).toEqual([[], sha256(STATE), RANGE]);
  const bySeed = sketchOf(copy?.seed ?? 0, RANGE[0], STATE, 3);
  expect(isNear(bySeed, { sums: copy?.sums ?? [] })).toBe(true);
  expect(isNear(sketchOf((copy?.seed ?? 0) ^ 1, RANGE[0], STATE, 3), { sums: copy?.sums ?? [] })).toBe(false);
});

test('[RE25] the next checkpoint does not wait for an upload that nobody answers', async () => {
  const signals: AbortSignal[] = [];
  const asked: number[] = [];
  const files = {
    upload: (_state: Float32Array, { step }: { readonly step: number }, signal: AbortSignal) => {
      signals.push(signal);
      asked.push(step);
      return step === 4 ? new Promise<string>(() => {}) : Promise.resolve(sha256(STATE));
    },
  };
  const primary = roleOf(peerId('a'), [peerId('a')]);
  const checkpointing = new Checkpointing();
  await checkpointing.save(primary, { epoch: 1, step: 4 }, files, () => {});
  const said = await new Promise<PeerMessage>((resolve) => {
    void checkpointing.save(primary, { epoch: 2, step: 5 }, files, resolve);
  });
  expect(said).toMatchObject({ type: 'uploaded', epoch: 2, step: 5 });
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  expect(asked).toEqual([4, 5]);
});

test('[RE84] where a replica uploads its primary tells what it has, but where that one is excused', async () => {
  const [a, b] = [peerId('a'), peerId('b')];
  const words = async (excused?: PeerId[]) =>
    Promise.all(
      [a, b].map(async (peer) => {
        const said = await new Promise<PeerMessage>((resolve) => {
          const asked = { epoch: 1, step: 4, ...(excused && { excused }) };
          const files = { upload: async (state: Float32Array<ArrayBuffer>) => sha256(state) };
          void new Checkpointing().save(roleOf(peer, [a, b], b), asked, files, resolve);
        });
        if (said.type !== 'uploaded') throw new Error('it tells what it has');
        return [said.shards.map(({ hash }) => hash), said.copies?.map(({ hash }) => hash) ?? []];
      }),
    );
  const hash = sha256(STATE);
  expect(await words()).toEqual([
    [[], [hash]],
    [[hash], []],
  ]);
  expect(await words([b])).toEqual([
    [[hash], []],
    [[], [hash]],
  ]);
});
