/** What `shoal plan` says of a run with islands: a document and a table, beside one synchronous swarm. */
import { got, type PeerId, type Result, rounded } from '../../swarm/base.ts';
import { owner } from '../../swarm/plan/plan.ts';
import { type Cluster, linksOf } from '../../swarm/planner/cluster.ts';
import type { ClusterPlan } from '../../swarm/planner/clusterPlan.ts';
import type { IslandPlan, PlannedIsland } from '../../swarm/planner/islandPlan.ts';
import { ownedWords } from '../../swarm/planner/islandWords.ts';
import { reasonText } from '../../swarm/planner/reason.ts';
import { counted } from '../../swarm/quantityText.ts';
import type { WireEncoding } from '../../swarm/wire.ts';
import { aligned } from './aligned.ts';

/** Islands and the plan of one swarm for the same donors. */
export interface IslandAnswer {
  readonly islands: IslandPlan;
  readonly synchronous: Result<ClusterPlan>;
  /** Of the run file. */
  readonly wire: WireEncoding;
  readonly cluster: Cluster;
}

const rate = (tokens: number): string => `${rounded(tokens, 4)} tokens a second`;

/** Why islands, or why not. */
function verdict({ islands, synchronous }: IslandAnswer): string {
  const own = islands.predicted.tokensPerSecond;
  if (!synchronous.ok) return `No one swarm of these peers takes its steps together: ${synchronous.reason}.`;
  const { tokensPerSecond, stepSeconds } = synchronous.value.predicted;
  const one = `One swarm that takes its steps together does ${rate(tokensPerSecond)}, a step in ${rounded(stepSeconds, 3)} s`;
  const times = `${rounded(own / tokensPerSecond, 3)} times as many`;
  return own > tokensPerSecond
    ? `${one}; islands ${times}${why(islands, synchronous.value)}.`
    : `${one}; islands ${times}: without train.islands this run is faster.`;
}

/** In one swarm donors send at every step; one that is a donor alone sends nothing, and islands are more who compute. */
function why({ islands }: IslandPlan, { plan }: ClusterPlan): string {
  const computing = ({ stages }: ClusterPlan['plan']) =>
    new Set(stages.flatMap(({ members }) => members.map(({ peer }) => peer)));
  const donors = computing(plan);
  const more = new Set(islands.flatMap((island) => [...computing(island.plan)])).size;
  const [first] = donors;
  if (donors.size === 1) return more > 1 ? `, since that swarm is ${first} alone, and here ${more} donors compute` : '';
  return new Set(islands.map((island) => island.plan)).size > 1
    ? ', since they send each other what a model takes once a round and not at every step'
    : '';
}

/** Of the stream between its donors: how it is written, and over how many connections the plan counts on. */
function streamsOf({ plan, wire }: PlannedIsland, cluster: Cluster) {
  const link = linksOf(cluster);
  const found = new Map<string, { from: PeerId; to: PeerId; wire: WireEncoding; streams: number }>();
  for (let stage = 1; stage < plan.stages.length; stage++)
    for (const { id } of plan.microBatches) {
      const [above, below] = [owner(plan, stage - 1, id), owner(plan, stage, id)];
      if (above === below) continue;
      for (const [from, to] of [
        [above, below],
        [below, above],
      ] as const)
        found.set(JSON.stringify([from, to]), { from, to, wire, streams: link(from, to).streams });
    }
  return [...found.values()];
}

/** Absent where all are as the run file says, over one connection. */
const linksUnless = (plain: WireEncoding, links: ReturnType<typeof streamsOf>) =>
  links.some(({ wire, streams }) => wire !== plain || streams > 1) ? { links } : {};

export function islandDocument(answer: IslandAnswer) {
  const { islands: planned, synchronous, wire } = answer;
  const { predicted, idle, reasons, islands } = planned;
  return {
    islands: islands.map((island) => ({
      stages: island.plan.stages,
      microBatches: island.plan.microBatches,
      state: island.plan.state,
      schedule: island.plan.schedule,
      ...(island.plan.warmup && { warmup: island.plan.warmup }),
      ...linksUnless(wire, streamsOf(island, answer.cluster)),
      predicted: island.predicted,
    })),
    predicted,
    synchronous: synchronous.ok
      ? {
          stepSeconds: synchronous.value.predicted.stepSeconds,
          tokensPerSecond: synchronous.value.predicted.tokensPerSecond,
        }
      : null,
    idle,
    reasons: [verdict(answer), ...reasons.map(reasonText)],
  };
}

export function islandTable(answer: IslandAnswer, before: Result<IslandAnswer> | null): string {
  const { predicted, islands, reasons } = answer.islands;
  const rows = islands.flatMap(({ plan, wire, predicted: { peers, stepSeconds } }, island) => {
    const numbers = new Map(peers.map((peer) => [peer.peer, peer]));
    return plan.stages.flatMap(({ layers, members }, stage) =>
      members.map(({ peer, samples }) => {
        const { memoryBytes, memoryLimitBytes } = got(numbers, peer);
        return [
          ...[String(island), peer, String(stage), `[${layers.join(', ')})`, String(samples)],
          ...[plan.stages.length > 1 ? wire : '', `${rounded(stepSeconds, 3)} s`],
          ...[megabytes(memoryBytes), megabytes(memoryLimitBytes)],
        ];
      }),
    );
  });
  const head = ['island', 'peer', 'stage', 'layers', 'samples', 'wire', 'step', 'memory', 'of'];
  const was = before?.ok ? rate(before.value.islands.predicted.tokensPerSecond) : before?.reason;
  const about = (isWhole: boolean): string[] =>
    reasons.filter(({ peer }) => (peer === null) === isWhole).map(reasonText);
  return [
    `${rate(predicted.tokensPerSecond)}: ${counted(islands.length, 'island')}, a round of ${rounded(predicted.roundSeconds, 3)} s, ${rounded(predicted.meetingSeconds, 3)} s of it the meeting`,
    `Counting that donors leave in the middle of a round, ${rate(predicted.expectedTokensPerSecond)} are expected.`,
    ...(was === undefined ? [] : [`before the change: ${was}`]),
    verdict(answer),
    ...about(true),
    ...aligned([head, ...rows], '  '),
    ...about(false),
    ...idleLines(answer.islands),
    '',
  ].join('\n');
}

/** One line of all who are idle for the same reason. */
function idleLines({ idle, predicted: { owners } }: IslandPlan): string[] {
  const shares = new Map(owners.map(({ peer, share }) => [peer, share]));
  return [...new Set(idle.map(({ reason }) => reason))].map((reason) => {
    const alike = idle.flatMap((own) => (own.reason === reason ? [own.peer] : []));
    const share = alike.reduce((sum, peer) => sum + (shares.get(peer) ?? 0), 0);
    const names = `${alike.slice(0, MOST_NAMES).join(', ')}${alike.length > MOST_NAMES ? ', …' : ''}`;
    const [who, verb] =
      alike.length === 1
        ? [`${names} computes nothing`, 'it owns']
        : [`${alike.length} donors compute nothing (${names}), of each`, 'together they own'];
    return [`${who}: ${reason}`, ...ownedWords(verb, share)].join('; ');
  });
}
const MOST_NAMES = 4;

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
