/** What donors and searches say in a rehearsal left to chance, all from one source of chance. */

import type { SearchProblem } from '../autoplan/knownDonors.ts';
import type { Found } from '../autoplan/replannerState.ts';
import { below, invariant, type PeerId, peerId, type Random, refusal, success } from '../base.ts';
import type { DonorMessage } from '../coordinator/events.ts';
import { planInForce } from '../coordinator/state.ts';
import type { ServerMessage } from '../messages/messages.ts';
import type { LinkReport } from '../messages/profile.ts';
import type { Model } from '../model/model.ts';
import type { Plan } from '../plan/plan.ts';
import { equalSplit, splitProblem } from '../planner/equalSplit.ts';
import { answer } from './honestDonor.ts';
import type { Rehearsal } from './rehearsal.ts';
import { LEAST_BYTES, MICRO_BATCHES, SAMPLES } from './rehearsalTerms.ts';

/** A donor with a part in a plan, or with none yet. */
interface Working {
  readonly peer: PeerId;
  readonly plan: Plan | null;
  readonly epoch: number;
  /** Seconds of a layer's forward for one sample. */
  readonly slowness: number;
}

export const pick = <T>(random: Random, from: readonly T[]): T => {
  const chosen = from[below(random, from.length)];
  invariant(chosen !== undefined, 'there is something to pick from');
  return chosen;
};

type Report = Extract<DonorMessage, { type: 'report' }>;
/** `overflows`: the gradient alone is spoiled, as in a run that scales it. */
export const spoil = (report: Report, overflows: boolean): Report => ({
  ...report,
  losses: overflows ? report.losses : report.losses.map(({ microBatch }) => ({ microBatch, lossSum: null })),
  shards: report.shards.map((shard) => ({ ...shard, sumSquares: 'NaN' })),
});

/** With how long its work took, and how fast its links are. */
export function measured(
  random: Random,
  peers: readonly PeerId[],
  { peer, plan, slowness }: Working,
  report: Report,
): Report {
  let at = 0;
  const spans = (plan?.stages ?? []).flatMap(({ members }, stage) =>
    (members.find((member) => member.peer === peer)?.microBatches ?? []).map((id) => {
      const start = at;
      at += slowness * (0.5 + random());
      return { action: `${stage}F${id}`, start, end: at };
    }),
  );
  const others = peers.filter((other) => other !== peer && random() < 0.3);
  const links = others.map(
    (other): LinkReport => ({
      ...{ peer: other, route: 'direct', roundTripMs: 100 * random(), bytesPerSecond: 1e6 * random() },
    }),
  );
  return { ...report, spans, links };
}

/** What a search may come to: a plan of some of those who were asked for, now and then of one who is not here. */
export function splitOfSome(
  random: Random,
  model: Model,
  { cluster }: SearchProblem,
  capacity: number,
  mayBeStrange: boolean,
): Found {
  const able = cluster.peers.flatMap(({ id, memoryBytes }) => (memoryBytes < LEAST_BYTES ? [] : peerId(id)));
  const some = able.filter(() => random() < 0.8).slice(0, capacity);
  const chosen = some.length > 0 ? some : able.slice(0, 1);
  if (chosen.length === 0) return refusal('nobody is able');
  const members = mayBeStrange && random() < 0.05 ? chosen.with(0, peerId('stranger')) : chosen;
  const options = { microBatches: MICRO_BATCHES };
  const problem = splitProblem(model, SAMPLES, members.length, options);
  if (problem !== null) return refusal(problem);
  return success({ plan: equalSplit(model, SAMPLES, members, options), reasons: [], idle: [] });
}

export function fault(random: Random, { epoch, plan }: Working): DonorMessage {
  const others = plan?.stages.flatMap(({ members }) => members.map(({ peer }) => peer)) ?? [];
  const reasons = ['linkLost', 'linkLost', 'badFrame', 'internal', 'deviceLost', 'outOfMemory'] as const;
  const reason = pick(random, random() < 0.7 ? reasons.slice(0, 4) : reasons);
  const about = others.length > 0 ? { about: pick(random, others) } : {};
  return { type: 'fault', epoch, reason, detail: 'as it happens', ...(reason === 'linkLost' ? about : {}) };
}

/** Well-formed, and nothing that anyone asked for; or an old word, which hurts nobody. */
export function garbage(random: Random, run: Rehearsal, { peer, plan, epoch }: Working): DonorMessage {
  const anyEpoch = pick(random, [0, epoch, run.state.epoch, run.state.epoch + 1]);
  const anyStep = Math.max(0, run.state.committedSteps + pick(random, [-1, 0, 1]));
  const current = planInForce(run.state)?.plan ?? plan;
  if (current === null) return { type: 'ready', epoch: anyEpoch, memoryBytes: 0 };
  const start: ServerMessage = { type: 'start', epoch: anyEpoch, step: anyStep };
  const report = answer(run.config, peer, current, start) as Report;
  const evaluated = { ...start, type: 'evaluated', losses: report.losses } as const;
  const hash = '0'.repeat(64);
  return pick<DonorMessage>(random, [
    { type: 'ready', epoch: anyEpoch, memoryBytes: 0 },
    { ...report, losses: report.losses.slice(1) },
    { ...report, losses: [...report.losses, ...report.losses] },
    { ...report, shards: report.shards.slice(1) },
    { ...report, shards: [...report.shards, ...report.shards] },
    evaluated,
    { type: 'uploaded', epoch: anyEpoch, step: anyStep + 1, shards: [{ block: 'head', range: [1, 2], hash }] },
  ]);
}
