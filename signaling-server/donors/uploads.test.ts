/** What of a donor's uploads is kept: against a real server, by donors that send what they should not. */
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { invariant, peerId } from '../../swarm/base.ts';
import { parseRunFile } from '../../swarm/run/runFile.ts';
import { openBlobs } from '../files/blobs.ts';
import { DecisionLoop } from '../run/decisionLoop.ts';
import { type Manifest, manifestHashes, parseManifest } from '../store/checkpointState.ts';
import { type Store, storeOn } from '../store/store.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';
import type { UploadCame } from './uploadPace.ts';
import { Uploads } from './uploads.ts';

const EVERY = 3;
const HEAD = 16;

let servers: TinyServers;
afterEach(() => servers.close());

type Floats = Float32Array<ArrayBuffer>;

/** A donor that computes, and does nothing of itself from its first checkpoint on, which it is asked for. */
async function askedDonor(steps = EVERY) {
  servers = new TinyServers({ steps, checkpointEverySteps: EVERY });
  const server = await servers.serve();
  const donor = new ScriptedDonor(server.url, { uploads: false });
  const { epoch, step } = await donor.hears('committed', ({ checkpoint }) => checkpoint);
  donor.obedient = false;
  const shard = { epoch, step: step + 1, block: 'head', range: [0, HEAD] } as const;
  const put = async (state: Floats, part: Partial<typeof shard> = {}): Promise<string> => {
    const response = await donor.upload({ ...shard, ...part }, state);
    const answer = (await response.json()) as { error?: string; hash?: string };
    return `${response.status} ${answer.error ?? answer.hash}`;
  };
  const honest = (): Floats => donor.stateOf(shard.step, 'head', [0, HEAD]);
  const changed = (at: number, value: number): Floats => {
    const state = honest();
    state[at] = value;
    return state;
  };
  return { server, donor, shard, put, honest, changed };
}

describe('[SV6] a donor uploads what it was asked for', () => {
  it('and nothing else: no other shard, step or epoch, and each a few times', async () => {
    const { donor, put, honest, shard, server } = await askedDonor();
    const notAsked = '403 no such upload was asked for';
    expect(await put(honest(), { range: [0, HEAD - 1] as never })).toBe(notAsked);
    expect(await put(honest(), { block: 'h.0' as never })).toBe(notAsked);
    expect(await put(honest(), { step: shard.step + 1 })).toBe(notAsked);
    expect(await put(honest(), { epoch: shard.epoch + 1 })).toBe(notAsked);
    const idle = await ScriptedDonor.joined(server.url);
    expect((await idle.upload(shard, honest())).status).toBe(403);
    expect((await donor.fetch('/api/state', { method: 'PUT', body: 'x' })).status).toBe(415);
    const answers: string[] = [];
    while (answers.at(-1) !== notAsked) answers.push(await put(honest()));
    expect(answers.length).toBe(9);
    expect(new Set(answers).size).toBe(2);
  });

  it('of the size that the shard has', async () => {
    const { put, honest } = await askedDonor();
    expect(await put(honest().slice(1))).toBe('400 the upload has 188 bytes: a shard of 192 bytes was asked for');
    expect(await put(new Float32Array(3 * HEAD + 1))).toBe(
      '400 the upload has 196 bytes: a shard of 192 bytes was asked for',
    );
    expect(await put(new Float32Array(0))).toMatch(/^400 /);
    expect(await put(honest())).toMatch(/^200 [0-9a-f]{64}$/);
  });

  it('and says how long it is', async () => {
    const { donor, shard, honest } = await askedDonor();
    const { epoch, step, block, range } = shard;
    const answer = await donor.fetch(
      `/api/state?epoch=${epoch}&step=${step}&block=${block}&from=${range[0]}&to=${range[1]}`,
      {
        ...{ method: 'PUT', headers: { 'content-type': 'application/octet-stream' }, duplex: 'half' },
        body: new Blob([honest()]).stream(),
      } as RequestInit,
    );
    expect([answer.status, await answer.json()]).toEqual([
      411,
      { error: 'the upload does not say its length: a shard of 192 bytes was asked for' },
    ]);
  });

  it('[RE25] eight times at most, whole or not, and what is new of it counts once', async () => {
    const { server, donor, shard, put, honest } = await askedDonor();
    const bytes = new Uint8Array(honest().buffer);
    const { uploads } = server.run;
    const came: (readonly [number, number, boolean])[] = [];
    async function* cut(lengthBytes: number) {
      yield bytes.subarray(0, lengthBytes);
      throw new Error('aborted');
    }
    const lengths = [10, 5, 30, 30, 31, 0, 31, 50];
    for (const lengthBytes of lengths) {
      const body = { sizeBytes: bytes.length, chunks: cut(lengthBytes) };
      const taken = uploads.take(donor.welcome.peer, shard, body, (...piece) => void came.push(piece));
      await expect(taken).rejects.toMatchObject({ status: 400, message: 'the upload was cut off' });
    }
    expect(came.map(([sizeBytes]) => sizeBytes)).toEqual(lengths);
    expect(came.map(([, newBytes]) => newBytes)).toEqual([10, 0, 20, 0, 1, 0, 0, 19]);
    expect(await put(honest())).toBe('403 no such upload was asked for');
  });

  it('[RE25] and the decisions hear of what never came before, where it comes at 5 bytes a millisecond or more', async () => {
    const { server, donor } = await askedDonor();
    vi.useFakeTimers({ toFake: ['performance'] });
    const told = vi.spyOn(DecisionLoop.prototype, 'dispatch');
    const tellings = (): number => told.mock.calls.filter(([{ type }]) => type === 'uploading').length;
    const tellingsAfter = (ms: number, newBytes: number, came: UploadCame, isWhole = false): number => {
      vi.advanceTimersByTime(ms);
      came(1_000_000, newBytes, isWhole);
      return tellings();
    };
    try {
      const trickle = server.run.uploadBegins(donor.welcome.peer);
      for (let seconds = 0; seconds < 600; seconds++) expect(tellingsAfter(1_000, 1, trickle)).toBe(0);
      const slow = server.run.uploadBegins(donor.welcome.peer);
      expect(tellingsAfter(5_000, 24_999, slow)).toBe(0);
      expect(tellingsAfter(1_000, 5_001, slow)).toBe(1);
      expect(tellingsAfter(4_999, 1e6, slow)).toBe(1); // soon enough
      expect(tellingsAfter(1, 1, slow)).toBe(2);
      expect(tellingsAfter(60_000, 0, slow)).toBe(2); // what came before counts for nothing, and costs no time
      expect(tellingsAfter(5_000, 25_000, slow)).toBe(3);
      const short = server.run.uploadBegins(donor.welcome.peer);
      expect(tellingsAfter(100, 499, short, true)).toBe(3);
      expect(tellingsAfter(0, 1, short, true)).toBe(4);
    } finally {
      vi.useRealTimers();
      told.mockRestore();
    }
  });

  it('[SV50] says a hash that it uploaded itself, for this shard', async () => {
    const { donor, shard, put, honest } = await askedDonor();
    await put(honest());
    const { epoch, step, block, range } = shard;
    const shards = [{ block, range, hash: 'a'.repeat(64) }];
    donor.say({ type: 'uploaded', epoch, step, shards });
    expect(await donor.hears('refused')).toMatchObject({ reason: 'malformed' });
  });
});

it('[SV6] what the run has gone back over since is wanted no more, and blames nobody', async () => {
  const { server, donor, put, honest } = await askedDonor(2 * EVERY);
  server.run.sendBack(0);
  for (let time = 0; time < 3; time++) expect(await put(honest())).toBe('410 the run has gone back since');
  expect(donor.received.filter(({ type }) => type === 'refused')).toEqual([]);
});

describe('[SV50] what cannot be a state is not kept, and the second time its donor goes', () => {
  const cases: readonly (readonly [string, number, number, RegExp])[] = [
    ['a value that is no number', 3, Number.NaN, /^422 element 3 of its values is NaN: expected a finite number$/],
    ['an infinite moment', HEAD + 2, Number.NEGATIVE_INFINITY, /^422 element 2 of its first moments is -Infinity/],
    [
      'a negative second moment',
      2 * HEAD,
      -1e-9,
      /^422 element 0 of its second moments is -9.99.*: expected a finite number from 0/,
    ],
    ['[SV50] a value that no step can have come to', 5, 1e6, /^422 its values are 1.00e\+6 from those 3 steps before/],
    ['[SV50] a first moment beyond every gradient', HEAD, 1e3, /^422 its first moments have a norm of 1.00e\+3/],
    ['[SV50] a second moment beyond every gradient', 3 * HEAD - 1, 1e3, /^422 its second moments add up to 1.00e\+3/],
  ];
  for (const [what, at, value, sentence] of cases) {
    it(what, async () => {
      const { donor, put, changed, server } = await askedDonor();
      const before = await server.run.checkpoint(EVERY);
      expect(await put(changed(at, value))).toMatch(sentence);
      expect(donor.received.some(({ type }) => type === 'refused')).toBe(false);
      expect(await put(changed(at, value))).toMatch(sentence);
      expect(await donor.hears('refused')).toMatchObject({ reason: 'faulty' });
      expect(before).toBeNull();
    });
  }

  it('[SV50] values of the same norm, turned around', async () => {
    const { put, honest } = await askedDonor();
    const state = honest();
    for (let i = 0; i < HEAD; i++) state[i] = -(state[i] ?? 0);
    expect(await put(state)).toMatch(/^422 its values are /);
  });

  it('one that came wrong once may be right the second time', async () => {
    const { donor, put, honest, changed } = await askedDonor();
    expect(await put(changed(3, Number.NaN))).toMatch(/^422 /);
    expect(await put(honest())).toMatch(/^200 /);
    expect(donor.received.some(({ type }) => type === 'refused')).toBe(false);
  });
});

const manifests = (store: Store): Manifest[] => store.manifests().map(parseManifest);

it('[SV50] two uploads of NaN cost a donor its place and the run nothing: others finish it from what was saved before', async () => {
  const steps = 12;
  servers = new TinyServers({ steps, checkpointEverySteps: EVERY });
  const { store, blobs } = await servers.data();
  const server = await servers.serve();
  let uploads = 0;
  const hostile = new ScriptedDonor(server.url, {
    forge: (state) => (uploads++ < 4 ? state : state.fill(Number.NaN)),
  });
  expect(await hostile.hears('refused')).toMatchObject({ reason: 'faulty' });
  const honest = await ScriptedDonor.joined(server.url);
  await honest.hears('standby', ({ state }) => state === 'finished');
  expect(server.run.committedSteps).toBe(steps);
  const named = new Set(manifests(store).flatMap(manifestHashes));
  for (const hash of named) {
    const bytes = await blobs.read(hash);
    expect(new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4).every(Number.isFinite)).toBe(true);
  }
});

it('where a replica uploads a shard it is taken from that one alone; where that is excused, from the primary', async () => {
  servers = new TinyServers({ steps: 10 });
  const blobs = await openBlobs(join(servers.folder, 'blobs'));
  const store = storeOn(new DatabaseSync(':memory:'));
  const values = await blobs.put(new Uint8Array(4));
  const manifest = { step: 0, shards: [{ block: 'head', range: [0, 1], hash: values, moments: false }] };
  store.addRun('tiny', 'hash', JSON.stringify({ data: { shards: [] }, evaluation: null }), JSON.stringify(manifest), 0);
  const [a, b] = [peerId('a'), peerId('b')];
  const shards = [{ peer: a, replicas: [b], uploader: b, range: [0, 1] }];
  store.saveEpoch('tiny', 1, 0, JSON.stringify({ state: [{ block: 'head', shards }] }), '');
  const run = parseRunFile(tinyRunFile({ steps: 10 }), 'run.json');
  invariant(run.ok, 'it is a run file');
  const uploads = new Uploads({ store, blobs, name: 'tiny', train: run.value.train });
  const taken = (peer: typeof a, step: number): Promise<string> => {
    const bytes = new Uint8Array(Float32Array.of(step * 1e-4, 0, 0).buffer);
    const upload = { epoch: 1, step, block: 'head', range: [0, 1] } as const;
    return uploads
      .take(peer, upload, { sizeBytes: bytes.length, chunks: Readable.from([bytes]) }, () => {})
      .then(
        () => 'taken',
        (error: Error) => error.message,
      );
  };
  for (const peer of [a, b]) await uploads.asked(peer, { epoch: 1, step: 1 });
  expect([await taken(a, 1), await taken(b, 1)]).toEqual(['no such upload was asked for', 'taken']);
  for (const peer of [a, b]) await uploads.asked(peer, { epoch: 1, step: 2, excused: [b] });
  expect([await taken(a, 2), await taken(b, 2)]).toEqual(['taken', 'no such upload was asked for']);
});

it('uploads that came into no checkpoint are taken off the disk; what a run or a checkpoint names stays', async () => {
  servers = new TinyServers({ steps: 1_000 });
  const blobs = await openBlobs(join(servers.folder, 'blobs'));
  const store = storeOn(new DatabaseSync(':memory:'));
  const [values, tokens] = [await blobs.put(new Uint8Array(4)), await blobs.put(new Uint8Array(2))];
  const manifest = { step: 0, shards: [{ block: 'head', range: [0, 1], hash: values, moments: false }] };
  const document = { data: { shards: [tokens] }, evaluation: null };
  store.addRun('tiny', 'hash', JSON.stringify(document), JSON.stringify(manifest), 0);
  const [a, b] = [peerId('a'), peerId('b')];
  const shards = [a, b].map((peer) => ({ peer, replicas: [], range: [0, 1] }));
  store.saveEpoch('tiny', 1, 0, JSON.stringify({ state: [{ block: 'head', shards }] }), '');
  const run = parseRunFile(tinyRunFile({ steps: 1_000 }), 'run.json');
  invariant(run.ok, 'it is a run file');
  const uploads = new Uploads({ store: store, blobs, name: 'tiny', train: run.value.train });
  for (let step = 1; step <= 50; step++) {
    for (const peer of [a, b]) await uploads.asked(peer, { epoch: 1, step });
    for (const [index, peer] of [a, b].entries()) {
      const bytes = new Uint8Array(Float32Array.of((step + index / 2) * 1e-4, 0, 0).buffer);
      const upload = { epoch: 1, step, block: 'head', range: [0, 1] } as const;
      await uploads.take(peer, upload, { sizeBytes: bytes.length, chunks: Readable.from([bytes]) }, () => {});
    }
  }
  const kept = await blobs.list();
  expect(kept).toEqual(expect.arrayContaining([values, tokens]));
  expect(kept).toHaveLength(3 * 2 + 2);
});
