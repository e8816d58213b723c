import { expect, test } from 'vitest';
import { clusterAtHand } from '../autoplan/atHand.ts';
import { admittedProfile } from '../autoplan/peerProfile.ts';
import { planWished } from '../autoplan/wishes.ts';
import { invariant, type PeerId, peerId } from '../base.ts';
import { NO_LIMITS } from '../limits.ts';
import { type BufferLimits, oversized, oversizedWords } from '../memory/bufferLimits.ts';
import { type Profile, profileSchema } from '../messages/profile.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Plan, peers as peersOf, problems } from '../plan/plan.ts';
import { parseCluster } from './cluster.ts';
import { planCluster } from './clusterPlan.ts';
import { equalSplit } from './equalSplit.ts';
import { fittingSplit } from './fit.ts';
import { replicatedWithin, replicaWish } from './replicas.ts';

const [WIDTH, POSITIONS, VOCABULARY, LAYERS] = [32, 4, 4_096, 24];
const CONFIG = {
  ...{ model_type: 'gpt2', n_layer: LAYERS, n_head: 2, n_embd: WIDTH, n_positions: POSITIONS, vocab_size: VOCABULARY },
};
const parsed = modelFromConfig(CONFIG);
invariant(parsed.ok, 'a valid model');
const model = parsed.value;
const batch = { samples: 4, sequence: POSITIONS };
/** Token table and positions, as floats: the first stage has them, and so has the last, for they are tied. */
const TABLE_BYTES = 4 * WIDTH * (VOCABULARY + POSITIONS);
/** What the last stage has of it. */
const HEAD_BYTES = 4 * WIDTH * VOCABULARY;
const SMALL = 300_000;
const reasonOf = (bytes: number): RegExp =>
  new RegExp(
    `^the model does not fit these \\w+: the tensor values/embedding has ${bytes} bytes \\(51[23] KiB\\), and .* takes at most ${SMALL} \\(293 KiB\\) in one buffer`,
  );

const named = (...names: string[]): PeerId[] => names.map(peerId);
const limited = (...names: string[]): BufferLimits =>
  new Map(named(...names).map((peer) => [peer, { bufferBytes: SMALL, bindingBytes: SMALL }]));
const split = (peers: PeerId[], buffers: BufferLimits) =>
  fittingSplit({ model, batch, peers, caps: new Map(), buffers, options: {} });
/** Who computes with the table. */
const atEnds = ({ stages }: Plan): PeerId[] =>
  [stages[0], stages.at(-1)].flatMap((stage) => stage?.members.map(({ peer }) => peer) ?? []);

test('[KE45] the largest buffer past a peer’s limit is found by name and bytes, of stages and of shards', () => {
  const [a, b, c] = [peerId('a'), peerId('b'), peerId('c')];
  const plan = equalSplit(model, 4, [a, b, c]);
  expect(oversized(model, batch, plan, limited('a'))).toEqual({
    ...{ peer: a, name: 'values/embedding', of: 'buffer', bytes: TABLE_BYTES, limit: SMALL },
  });
  expect(oversized(model, batch, plan, limited('b'))).toBeNull();
  // A keeper of all of the table, which computes with a layer only.
  const state = plan.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => ({ ...shard, peer: b })),
  }));
  expect(oversized(model, batch, { ...plan, state }, limited('b'))).toMatchObject({ peer: b, bytes: TABLE_BYTES });
});

test('[KE45] the equal split seats donors with small buffers between the others', () => {
  const plan = split(named('a', 'b', 'c', 'd'), limited('a', 'd'));
  invariant(plan.ok, 'it fits');
  expect(problems(model, batch, plan.value)).toEqual([]);
  expect(atEnds(plan.value)).toEqual(['b', 'c']);
  expect(oversized(model, batch, plan.value, limited('a', 'd'))).toBeNull();
  // Nobody's order changes where nobody's has to.
  expect(split(named('a', 'b', 'c'), limited('b'))).toEqual(split(named('a', 'b', 'c'), new Map()));
});

test('[KE45] where nobody takes the table the run is refused by tensor, bytes and limit', () => {
  const found = split(named('a', 'b', 'c'), limited('a', 'b', 'c'));
  expect(found).toEqual({ ok: false, reason: expect.stringMatching(reasonOf(TABLE_BYTES)) });
  const one = split(named('a', 'b'), limited('b'));
  expect(one).toEqual({ ok: false, reason: expect.stringContaining('the GPU of donor 1 takes at most 300000') });
});

test('[KE45] a plan that is given is refused where a donor of it takes no buffer so large', () => {
  const plan = equalSplit(model, 4, named('x', 'y'));
  const wished = (buffers: BufferLimits) => planWished(model, batch, { plan }, { buffers })(named('a', 'b'), new Map());
  expect(wished(new Map()).ok).toBe(true);
  expect(wished(limited('b'))).toEqual({ ok: false, reason: expect.stringMatching(reasonOf(HEAD_BYTES)) });
});

test('[KE45] no copy of a shard goes to a donor whose GPU takes none so large', () => {
  const offer = named('a', 'b', 'c');
  const copied = (limit: number): Plan => {
    const run = {
      model,
      batch,
      caps: new Map(),
      buffers: new Map([[peerId('b'), { bufferBytes: limit, bindingBytes: limit }]]),
      offer,
    };
    return replicatedWithin(run, equalSplit(model, 4, offer, { stages: 3 }), replicaWish(2)).plan;
  };
  const withTable = ({ state }: Plan) => state.find(({ block }) => block === 'embedding')?.shards;
  expect(withTable(copied(TABLE_BYTES))?.flatMap(({ replicas }) => replicas)).toContain('b');
  const small = withTable(copied(100_000))?.filter(({ replicas }) => replicas.includes(peerId('b'))) ?? [];
  expect(Math.max(...small.map(({ range: [from, to] }) => 4 * (to - from)))).toBeLessThanOrEqual(100_000);
});

test('[KE45] shards that were cut for a small buffer are not put together for their copies', () => {
  const [a, b, c] = named('a', 'b', 'c') as [PeerId, PeerId, PeerId];
  const plan = equalSplit(model, 4, [a, b, c], { stages: 3 });
  // b computes with layers alone, and keeps the table: its GPU takes half of it in one buffer.
  const halves = plan.state.map(({ block, shards }) => {
    if (block !== 'embedding') return { block, shards };
    const end = shards.at(-1)?.range[1] ?? 0;
    const middle = (VOCABULARY * WIDTH) / 2;
    const ranges = [[0, middle] as const, [middle, end] as const];
    return { block, shards: ranges.map((range) => ({ peer: b, range, replicas: [] })) };
  });
  const given = { ...plan, state: halves };
  const buffers = limited('b');
  expect(oversized(model, batch, given, buffers)).toBeNull();
  for (const count of [0, 1, 2]) {
    const run = { model, batch, caps: new Map(), buffers, offer: [a, b, c] };
    const copied = replicatedWithin(run, given, replicaWish(count)).plan;
    expect(problems(model, batch, copied)).toEqual([]);
    expect(oversized(model, batch, copied, buffers), `${count} copies`).toBeNull();
    const copies = copied.state.flatMap(({ shards }) => shards.map(({ replicas }) => replicas.length));
    expect(Math.min(...copies)).toBe(count);
  }
});

test('[KE45] a searched plan with copies in which one keeps more than its GPU takes at once is found, and gone on from', () => {
  // c computes nothing that has the table; a and b lack memory for its state.
  const cluster = parseCluster(
    {
      peers: ['a', 'b', 'c'].map((id) => ({
        ...{ id, memoryBytes: id === 'c' ? 1e9 : 4.4e6, flopsPerSecond: id === 'c' ? 1e6 : 1e9 },
        ...(id === 'c' && { bufferBytes: SMALL }),
      })),
      links: { default: { latencySeconds: 1e-4 } },
    },
    'c.json',
  );
  invariant(cluster.ok, 'a cluster');
  const problem = { model, batch, cluster: cluster.value, replicas: replicaWish(1) };
  const found = planCluster(problem, ({ work }) => work < 300);
  invariant(found.ok, 'it fits');
  const keptByC = found.value.plan.state.flatMap(({ block, shards }) =>
    shards.filter(({ peer }) => peer === 'c').map(({ range }) => ({ block, range })),
  );
  expect(keptByC.filter(({ block }) => block === 'embedding').length).toBeGreaterThan(1);
  expect(oversized(model, batch, found.value.plan, limited('c'))).toBeNull();
  const again = planCluster({ ...problem, inForce: found.value.plan }, () => false);
  invariant(again.ok, 'it is in force');
  expect(oversized(model, batch, again.value.plan, limited('c'))).toBeNull();
});

/** A buffer, or a buffer and a binding. */
function limitsIn(limit: number | readonly [number, number] | undefined): object {
  if (typeof limit !== 'object') return limit === undefined ? {} : { bufferBytes: limit };
  return { bufferBytes: limit[0], bindingBytes: limit[1] };
}
const clusterWith = (
  buffers: Readonly<Record<string, number | readonly [number, number]>>,
  memory: Readonly<Record<string, number>> = {},
) => {
  const peers = ['a', 'b', 'c'].map((id) => ({
    ...{ id, memoryBytes: memory[id] ?? 1e9, flopsPerSecond: id === 'a' ? 4e8 : 1e8 },
    ...limitsIn(buffers[id]),
  }));
  return parseCluster({ peers, links: { default: { latencySeconds: 1e-4 } } }, 'c.json');
};
const planned = (...[buffers, memory]: Parameters<typeof clusterWith>) => {
  const cluster = clusterWith(buffers, memory);
  invariant(cluster.ok, 'a cluster');
  return planCluster({ model, batch, cluster: cluster.value }, ({ work }) => work < 1_500);
};

test('[KE45] the planner gives the table to who takes it, however fast the other is', () => {
  const free = planned({});
  invariant(free.ok, 'it fits');
  expect(atEnds(free.value.plan)).toContain('a');
  const found = planned({ a: SMALL });
  invariant(found.ok, 'it fits');
  expect(problems(model, batch, found.value.plan)).toEqual([]);
  expect(peersOf(found.value.plan)).toContain('a');
  expect(atEnds(found.value.plan)).not.toContain('a');
  expect(oversized(model, batch, found.value.plan, limited('a'))).toBeNull();
  // A limit that nothing in this run is past changes nothing.
  expect(planned({ a: 2e6, b: 2e6 })).toEqual(free);
});

test('[KE45] the planner refuses by tensor, bytes and limit where nobody takes the table', () => {
  const found = planned({ a: SMALL - 1, b: SMALL, c: SMALL - 1 });
  expect(found).toEqual({ ok: false, reason: expect.stringMatching(reasonOf(TABLE_BYTES)) });
  expect(found).toMatchObject({ reason: expect.stringContaining('b, the roomiest, takes at most') });
});

test('a table past what is bound at once is nobody’s hindrance; what kernels bind whole is', () => {
  const free = planned({});
  const bound: readonly [number, number] = [2e6, SMALL];
  const cut = planned({ a: bound, b: bound, c: bound });
  invariant(free.ok && cut.ok, 'it fits');
  expect(SMALL).toBeLessThan(HEAD_BYTES);
  expect(cut.value.plan).toEqual(free.value.plan);
  const wide = modelFromConfig({ ...CONFIG, n_embd: 192, n_layer: 2 });
  invariant(wide.ok, 'a valid model');
  const plan = equalSplit(wide.value, 4, named('a'));
  const limits = new Map([[peerId('a'), { bufferBytes: 1e9, bindingBytes: SMALL }]]);
  // The feed-forward matrices: 192 × 768 floats.
  const found = oversized(wide.value, batch, plan, limits);
  expect(found).toMatchObject({ of: 'binding', bytes: 4 * 192 * 768, limit: SMALL });
  invariant(found, 'it is too large');
  expect(oversizedWords(found, 'it')).toMatch(
    /^589824 bytes \(576 KiB\) of the tensor values\/\S+ are bound at once, and it binds at most 300000/,
  );
});

test('[KE45] a cluster file’s bufferBytes has its bounds', () => {
  expect(clusterWith({ b: 10 })).toEqual({
    ok: false,
    reason: 'c.json: peers[1].bufferBytes must be at least 65536, not 10',
  });
});

const LIMITS = {
  ...{ bufferBytes: 2 ** 28, bindingBytes: 2 ** 27, storageBuffers: 8, workgroupBytes: 16_384, invocations: 256 },
};

test('[KE45] a donor says its device’s limits, none below what WebGPU guarantees; buffer and binding both count', () => {
  const times = { samples: 1, forwardSeconds: 1, backwardSeconds: 1 };
  const profile = { layers: [times], memoryBytes: 1e9, checkedKernels: 1 };
  const read = (deviceLimits?: object) =>
    profileSchema.safeParse({ ...profile, ...(deviceLimits && { deviceLimits }) });
  const said: Profile = profileSchema.parse({ ...profile, deviceLimits: LIMITS });
  expect(read().success).toBe(true);
  for (const [name, guaranteed] of Object.entries(LIMITS)) {
    expect(read({ ...LIMITS, [name]: guaranteed - 1 }).success, name).toBe(false);
    expect(read({ ...LIMITS, [name]: 2 ** 51 }).success, name).toBe(false);
  }
  const peer = peerId('a');
  const known = admittedProfile(said);
  expect(known).toMatchObject({ bufferBytes: 2 ** 28, bindingBytes: 2 ** 27 });
  const { peers } = clusterAtHand([{ peer, profile: known, limits: NO_LIMITS }], new Map());
  expect(peers).toMatchObject([{ id: 'a', bufferBytes: 2 ** 28, bindingBytes: 2 ** 27 }]);
});
