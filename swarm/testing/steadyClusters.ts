/**
 * Seeded clusters, and each of them with a little more: a peer, memory, a faster link. Nobody is worse off for what is
 * added, as it may be left unused: a planner whose step gets longer has lost a plan that it had found before.
 */
import { arrayOf, at, below, invariant, type Random, seededRandom } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Cluster, parseCluster } from '../planner/cluster.ts';
import type { ClusterProblem } from '../planner/clusterCosts.ts';

/** Peers of a cluster. */
const [FEWEST, MOST] = [6, 120];
/** Models and batches for which computing and sending weigh about the same in these clusters. */
const SIZES = [
  { layers: 6, width: 256, sequence: 256, samples: 32 },
  { layers: 12, width: 384, sequence: 256, samples: 64 },
  { layers: 8, width: 512, sequence: 512, samples: 128 },
];

interface SteadyCase {
  readonly problem: ClusterProblem;
  readonly richer: readonly { readonly name: string; readonly problem: ClusterProblem }[];
}

export function steadyCase(seed: number, most = MOST): SteadyCase {
  const random = seededRandom(seed);
  const { layers, width, sequence, samples } = at(SIZES, below(random, SIZES.length));
  const model = modelFromConfig({
    ...{ model_type: 'gpt2', n_layer: layers, n_head: 4, n_embd: width },
    ...{ n_positions: sequence, vocab_size: 2048 },
  });
  invariant(model.ok, 'a model');
  const count = Math.round(spread(random, FEWEST, most));
  const cluster = randomCluster(random, count, 1 + below(random, 5));
  const problemOf = (of: Cluster): ClusterProblem => ({
    model: model.value,
    batch: { samples, sequence },
    cluster: of,
  });
  const { peers, links } = cluster;
  const some = at(peers, below(random, count));
  const faster = <T extends Cluster['links']['default']>(link: T): T => ({
    ...link,
    ...(link.bytesPerSecond && { bytesPerSecond: 2 * link.bytesPerSecond }),
  });
  const wider = links.regions[below(random, links.regions.length)];
  const richer: [string, Cluster][] = [
    ['a peer like another', { ...cluster, peers: [...peers, { ...some, id: 'twin' }] }],
    ['a new peer', { ...cluster, peers: [...peers, { ...randomPeer(random), id: 'new', region: some.region }] }],
    ['memory of one', withPeer(cluster, some.id, { memoryBytes: 2 * some.memoryBytes })],
    ['memory of all', { ...cluster, peers: peers.map((peer) => ({ ...peer, memoryBytes: 1.5 * peer.memoryBytes })) }],
    [
      'one link',
      { ...cluster, links: { ...links, regions: links.regions.map((rule) => (rule === wider ? faster(rule) : rule)) } },
    ],
    [
      'all links',
      {
        ...cluster,
        links: { default: faster(links.default), regions: links.regions.map((rule) => faster(rule)), pairs: [] },
      },
    ],
    [
      'caps of one',
      withPeer(cluster, some.id, {
        uploadBytesPerSecond: 2 * (some.uploadBytesPerSecond ?? 0),
        downloadBytesPerSecond: 2 * (some.downloadBytesPerSecond ?? 0),
      }),
    ],
  ];
  return { problem: problemOf(cluster), richer: richer.map(([name, of]) => ({ name, problem: problemOf(of) })) };
}

const spread = (random: Random, least: number, most: number): number => least * (most / least) ** random();

const randomPeer = (random: Random) => ({
  memoryBytes: Math.round(spread(random, 2e7, 5e8)),
  flopsPerSecond: spread(random, 1e9, 5e10),
  uploadBytesPerSecond: spread(random, 5e5, 5e7),
  downloadBytesPerSecond: spread(random, 2e6, 1e8),
});

function randomCluster(random: Random, count: number, regions: number): Cluster {
  const peers = arrayOf(count, (index) => ({
    ...{ id: `p${index}`, region: `r${index % regions}` },
    ...randomPeer(random),
  }));
  const rules = Array.from({ length: regions }, (_, a) =>
    arrayOf(regions - a, (more) => ({
      between: [`r${a}`, `r${a + more}`],
      latencySeconds: more === 0 ? 0.005 : spread(random, 0.01, 0.15),
      bytesPerSecond: more === 0 ? 2.5e7 : spread(random, 1e6, 2e7),
    })),
  ).flat();
  const fallback = { latencySeconds: 0.04, bytesPerSecond: 2.5e6, windowBytes: 1.5e6 };
  const parsed = parseCluster({ peers, links: { default: fallback, regions: rules } }, 'a seeded cluster');
  invariant(parsed.ok, parsed.ok ? '' : parsed.reason);
  return parsed.value;
}

const withPeer = (cluster: Cluster, id: string, more: Partial<Cluster['peers'][number]>): Cluster => ({
  ...cluster,
  peers: cluster.peers.map((peer) => (peer.id === id ? { ...peer, ...more } : peer)),
});
