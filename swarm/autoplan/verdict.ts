/**
 * Whether a plan that was found is worth the change from the one in force, and the sentence that says so to the operator
 * with the numbers behind it.
 */
import { rounded } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import type { ClusterCosts } from '../planner/clusterCosts.ts';
import { forecast } from '../planner/forecast.ts';
import { withoutReplicas } from '../planner/replicas.ts';
import { savingSeconds } from '../planner/uploaders.ts';
import { besideSeconds, type Pace } from './pace.ts';
import { isWorth, movingSeconds } from './worth.ts';

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

/** `reason`: why another plan was looked for. `costsOf`: with the connections of a plan. */
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
