/**
 * Whether a better plan is worth the change: hysteresis, so that the swarm does not follow every breath of a measurement.
 * The gain over the next steps has to pay for getting ready, for the bytes of the hand-over, and for those of a checkpoint.
 */
import { addToKey, countIn, type PeerId, rounded } from '../base.ts';
import type { Model } from '../model/model.ts';
import { loadedBytes, transfers } from '../plan/handover.ts';
import type { Plan } from '../plan/plan.ts';
import { FLOAT_BYTES, stateKinds } from '../plan/stateKinds.ts';
import type { ClusterCosts } from '../planner/clusterCosts.ts';
import { forecast } from '../planner/forecast.ts';
import { savingSeconds, secondsFor, withoutReplicas } from '../planner/replicas.ts';
import { UNMEASURED_LINK } from './lines.ts';
import { besideSeconds, type Pace } from './pace.ts';

const GAIN_STEPS = 100;
/** Predictions are no better than that. */
const LEAST_GAIN = 0.05;

/** Until the slowest peer has sent and received what the hand-over moves. */
export function movingSeconds(model: Model, costs: ClusterCosts, before: Plan, after: Plan): number {
  const sent = new Map<PeerId, number>();
  const received = new Map<PeerId, number>();
  const carried = new Map<string, { readonly from: PeerId; readonly to: PeerId; bytes: number }>();
  for (const { from, to, range } of transfers(
    model,
    stateKinds(costs.batch.islands, before.islands, before.owned),
    before,
    after,
  )) {
    if (from === to) continue;
    const bytes = countIn(range) * FLOAT_BYTES;
    addToKey(sent, from, bytes);
    addToKey(received, to, bytes);
    const key = `${from} ${to}`;
    const link = carried.get(key) ?? { from, to, bytes: 0 };
    link.bytes += bytes;
    carried.set(key, link);
  }
  let seconds = 0;
  for (const { from, to, bytes } of carried.values()) {
    const { latencySeconds, bytesPerSecond } = costs.link(from, to);
    seconds = Math.max(seconds, latencySeconds + (bytesPerSecond === null ? 0 : secondsFor(bytes, bytesPerSecond)));
  }
  for (const { id, upload, download } of costs.peers)
    seconds = Math.max(seconds, secondsFor(sent.get(id) ?? 0, upload), secondsFor(received.get(id) ?? 0, download));
  return seconds;
}

/** Until every member has what it holds and keeps of a checkpoint, as the server sends it. */
export const loadingSeconds = ({ peers, model, batch }: Pick<ClusterCosts, 'peers' | 'model' | 'batch'>, plan: Plan) =>
  peers.reduce((most, { id, download }) => {
    const rate = Math.min(download, UNMEASURED_LINK.bytesPerSecond);
    return Math.max(most, secondsFor(loadedBytes(model, batch.islands, plan, id), rate));
  }, 0);

interface Change {
  readonly nowSeconds: number;
  readonly nextSeconds: number;
  /** Getting ready, moving, and what saving takes more than before, in all. */
  readonly costSeconds: number;
  /** That are left to be done; absent: many. */
  readonly steps?: number;
}

export const isWorth = ({ nowSeconds, nextSeconds, costSeconds, steps = GAIN_STEPS }: Change): boolean =>
  nextSeconds < nowSeconds * (1 - LEAST_GAIN) && (nowSeconds - nextSeconds) * Math.min(steps, GAIN_STEPS) > costSeconds;

interface Verdict {
  readonly isWorth: boolean;
  readonly sentence: string;
  /** Of a step with the plan in force, by what is known now. */
  readonly predictedSeconds: number;
}

const copiesIn = ({ state }: Plan): number =>
  state.reduce(
    (sum, { shards }) =>
      shards.reduce((all, { range: [from, to], replicas }) => all + (to - from) * replicas.length, sum),
    0,
  );

/**
 * Whether a plan that was found is worth the change from the one in force, and the sentence that says so to the operator
 * with the numbers behind it.
 * `reason`: why another plan was looked for. `costsOf`: with the connections of a plan.
 */
export function verdictOn(
  costsOf: (plan: Plan) => ClusterCosts,
  plan: Plan,
  next: Plan,
  pace: Pace,
  reason: string,
): Verdict {
  const [costs, nextCosts] = [costsOf(plan), costsOf(next)];
  const predictedSeconds = forecast(costs, plan).stepSeconds;
  const beside = besideSeconds(pace, predictedSeconds);
  // With other numbers of copies steps are compared without them: what they cost is no reason for a plan, nor against it.
  const compared = copiesIn(plan) === copiesIn(next) ? [plan, next] : [plan, next].map((one) => withoutReplicas(one));
  const [nowSeconds = 0, nextSeconds = 0] = compared.map(
    (one, index) => forecast(index === 0 ? costs : nextCosts, one).stepSeconds + beside,
  );
  const saving = Math.max(0, savingSeconds(costs, next) - savingSeconds(costs, plan));
  const costSeconds = pace.prepareSeconds + movingSeconds(costs.model, costs, plan, next) + saving;
  const worth = isWorth({ nowSeconds, nextSeconds, costSeconds });
  const [now, then, cost] = [nowSeconds, nextSeconds, costSeconds].map((seconds) => rounded(seconds, 3));
  const numbers = `a step takes ${then} s instead of ${now} s, and the change takes ${cost} s`;
  const isShorter = Number(then) < Number(now);
  const stays = isShorter ? `with the best other one ${numbers}` : `no other one has a shorter step`;
  const sentence = `${reason}: ${worth ? `with another plan ${numbers}` : `the plan stays, ${stays}`}`;
  return { isWorth: worth, sentence, predictedSeconds };
}
