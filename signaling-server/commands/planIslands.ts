/** What `shoal plan` says of a run with islands: a document and a table, beside one synchronous swarm. */
import { got, type PeerId, type Result, rounded } from '../../swarm/base.ts';
import { type Plan, peers } from '../../swarm/plan/plan.ts';
import { chanceOfStaying } from '../../swarm/planner/chains.ts';
import type { Cluster } from '../../swarm/planner/cluster.ts';
import type { ClusterPlan } from '../../swarm/planner/clusterPlan.ts';
import { type IslandPlan, ownedWords } from '../../swarm/planner/islandPlan.ts';
import { reasonText } from '../../swarm/planner/reason.ts';
import { counted, groupedText, rangeText, secondsText } from '../../swarm/quantityText.ts';
import type { WireEncoding } from '../../swarm/wire.ts';
import { aligned } from './aligned.ts';

/** Islands and the plan of one swarm for the same donors. */
export interface IslandAnswer {
  readonly islands: IslandPlan;
  readonly synchronous: Result<ClusterPlan>;
  readonly cluster: Cluster;
  /** Of a link of which a plan says nothing. */
  readonly wire: WireEncoding;
  /** Of the run, whose rounds are no longer than so many; null: as many as fit into a round. */
  readonly mostSteps: number | null;
  /** Do steps go on beside the meeting? */
  readonly overlaps: boolean;
}

const rate = (tokens: number): string => `${rounded(tokens, 4)} tokens a second`;

/** Why islands, or why not. */
function verdict({ islands, synchronous, cluster }: IslandAnswer): string {
  const { tokensPerSecond: own, expectedTokensPerSecond } = islands.predicted;
  if (!synchronous.ok) return `These peers cannot take their steps together as one swarm: ${synchronous.reason}.`;
  const { tokensPerSecond, stepSeconds } = synchronous.value.predicted;
  const one = `One swarm that takes its steps together does ${rate(tokensPerSecond)}, a step in ${secondsText(stepSeconds)}`;
  const times = (islandsDo: number, swarmDoes: number): string => {
    const ratio = rounded(islandsDo / swarmDoes, 3);
    return ratio === '1' ? 'as many' : `${ratio} times as many`;
  };
  const does = islands.islands.length === 1 ? 'one island does' : 'islands do';
  const reason = own > tokensPerSecond ? why(islands, synchronous.value) : '';
  const isSlower = own < tokensPerSecond && times(own, tokensPerSecond) !== 'as many';
  const expected = expectedTokens(synchronous.value, cluster);
  return [
    `${one}; ${does} ${times(own, tokensPerSecond)}${isSlower ? ': without train.islands this run is faster' : reason}.`,
    `Counting that donors leave in the middle of a step, ${rate(expected)} are expected of it; ${does} ${times(expectedTokensPerSecond, expected)}.`,
  ].join(' ');
}

/** Tokens a second: a step that somebody leaves is done again, as a round is. */
function expectedTokens({ plan, predicted: { tokensPerSecond, stepSeconds } }: ClusterPlan, cluster: Cluster): number {
  const donors = new Set<string>(peers(plan));
  const sessions = cluster.peers.flatMap(({ id, meanSessionSeconds = 0 }) =>
    donors.has(id) ? meanSessionSeconds : [],
  );
  return tokensPerSecond * chanceOfStaying(sessions, stepSeconds);
}

/** The predicted rate is that of whole rounds, which a short run does not have. */
function shortened({ islands: { islands }, mostSteps }: IslandAnswer): string[] {
  const steps = islands.reduce((sum, { predicted }) => sum + predicted.stepsPerRound, 0);
  if (mostSteps === null || steps <= mostSteps) return [];
  return [
    `A round has time for ${counted(steps, 'step')}, but a run as short as this one makes rounds of ${groupedText(mostSteps)} at most: it meets more often, and does less than is said here.`,
  ];
}

/** Where the run file counts them. */
function ofSteps({ islands: { islands }, mostSteps }: IslandAnswer): string {
  const [first, ...others] = islands;
  if (mostSteps !== null || !first) return '';
  return ` of ${counted(first.predicted.stepsPerRound, 'step')}${others.length > 0 ? ' each' : ''}`;
}

/** In one swarm donors send at every step; one that is a donor alone sends nothing, and islands are more who compute. */
function why({ islands }: IslandPlan, { plan }: ClusterPlan): string {
  const computing = ({ stages }: ClusterPlan['plan']) =>
    new Set(stages.flatMap(({ members }) => members.map(({ peer }) => peer)));
  const donors = computing(plan);
  const more = new Set(islands.flatMap((island) => [...computing(island.plan)])).size;
  const [first] = donors;
  if (donors.size === 1)
    return more > 1 ? `, since only ${first} computes in that swarm, and here ${more} donors do` : '';
  return new Set(islands.map((island) => island.plan)).size > 1
    ? ', since they send each other what a model takes once a round and not at every step'
    : '';
}

/** Whole, whatever the run's wire is; absent where all links are as the run file says, over one connection. */
export function linksSaid({ links = [] }: Pick<Plan, 'links'>, wire: WireEncoding) {
  const said = links.map((link) => ({ ...link, wire: link.wire ?? wire }));
  return said.some((link) => link.wire !== wire || link.streams > 1) ? { links: said } : {};
}

/** How the streams from this peer are written. */
const wiresFrom = ({ links = [], stages }: Plan, peer: PeerId, wire: WireEncoding): string =>
  stages.length < 2
    ? ''
    : [...new Set(links.flatMap((link) => (link.from === peer ? [link.wire ?? wire] : [])))].sort().join('/') || wire;

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
      ...linksSaid(island.plan, wire),
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
    reasons: [verdict(answer), ...shortened(answer), ...reasons.map(reasonText)],
  };
}

export function islandTable(answer: IslandAnswer, before: Result<IslandAnswer> | null): string {
  const { predicted, islands, reasons } = answer.islands;
  const rows = islands.flatMap(({ plan, predicted }, island) => {
    const numbers = new Map(predicted.peers.map((peer) => [peer.peer, peer]));
    return plan.stages.flatMap(({ layers, members }, stage) =>
      members.map(({ peer, samples }) => {
        const { memoryBytes, memoryLimitBytes } = got(numbers, peer);
        return [
          ...[String(island + 1), peer, String(stage + 1), rangeText(layers), String(samples)],
          ...[wiresFrom(plan, peer, answer.wire), secondsText(predicted.stepSeconds)],
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
    `${rate(predicted.tokensPerSecond)}: ${counted(islands.length, 'island')}${ofSteps(answer)}, a round of ${secondsText(predicted.roundSeconds)}, ${answer.overlaps ? `beside it the meeting of ${secondsText(predicted.meetingSeconds)}` : `${secondsText(predicted.meetingSeconds)} of it the meeting`}`,
    `Counting that donors leave in the middle of a round, ${rate(predicted.expectedTokensPerSecond)} are expected.`,
    ...(was === undefined ? [] : [`before the change: ${was}`]),
    verdict(answer),
    ...shortened(answer),
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
        ? [`${names} computes nothing:`, 'it owns']
        : [`${alike.length} donors compute nothing (${names}), each because`, 'together they own'];
    return [`${who} ${reason}`, ...ownedWords(verb, share)].join('; ');
  });
}
const MOST_NAMES = 4;

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
