/**
 * Which tokens a donor will need soon. Any peer can say it from the plan alone, so they are fetched while another step
 * is computed.
 */
import type { PeerId } from '../../../swarm/base.ts';
import { isRecorded, laterStep, turnAt } from '../../../swarm/islands/rounds.ts';
import { keepersOf, type Plan } from '../../../swarm/plan/plan.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import type { TokenSource } from './tokenSource.ts';

/** Steps whose tokens are fetched while another one is computed: short steps need more than one to hide a fetch. */
const STEPS_AHEAD = 4;

/** The tokens of this step (or the next one of these islands) and the ones after it are to be here in time. */
export function expectTokens(
  tokens: Pick<TokenSource, 'expect'>,
  train: Train,
  samples: readonly number[],
  step: number,
  own?: readonly number[],
): void {
  // Which number comes next is known when it comes.
  if (isRecorded(train)) return;
  const numbers: number[] = [];
  for (let next = laterStep(train, step, own); next !== null && numbers.length <= STEPS_AHEAD; ) {
    numbers.push(turnAt(train, next).number);
    next = laterStep(train, next + 1, own);
  }
  tokens.expect(numbers.flatMap((number) => samples.map((sample) => number * train.globalBatchSize + sample)));
}

/** The same of an evaluation's round that begins with window `first`, and of the next one. */
export function expectHeldOut(held: TokenSource, train: Train, samples: readonly number[], first: number): void {
  const rounds = [first, first + train.globalBatchSize].filter((window) => window < held.windows);
  held.expect(rounds.flatMap((window) => samples.map((sample) => window + sample)));
}

/** Samples of a step whose tokens this peer needs: who keeps rows of the token table knows from them which ones it is sent. */
export function samplesOfStep(plan: Plan, peer: PeerId, source: Pick<TokenSource, 'hasExamples'>): number[] {
  const own = samplesRead(plan, peer, source);
  const isKeeper = plan.state.some(
    ({ block, shards }) => block === 'embedding' && shards.some((shard) => keepersOf(shard).includes(peer)),
  );
  if (plan.rows === undefined || !isKeeper) return own;
  const others = plan.stages[0]?.members.flatMap((member) => samplesRead(plan, member.peer, source)) ?? [];
  return [...new Set([...own, ...others])];
}

/**
 * Samples of a step that this peer computes with: those that it embeds or takes the loss of, of examples all that go through
 * it; in the order of its work.
 */
export function samplesRead(
  { stages, microBatches }: Plan,
  peer: string,
  { hasExamples }: Pick<TokenSource, 'hasExamples'>,
): number[] {
  const ends = hasExamples ? stages : [stages[0], stages.at(-1)];
  const carried = new Set(
    ends.flatMap((stage) =>
      (stage?.members ?? []).flatMap((member) => (member.peer === peer ? member.microBatches : [])),
    ),
  );
  return [...microBatches]
    .sort((a, b) => a.id - b.id)
    .filter(({ id }) => carried.has(id))
    .flatMap(({ samples: [from, to] }) => Array.from({ length: to - from }, (_, i) => from + i));
}
