/** Why a plan's work is in its order: a tag and its numbers, and the sentence that they make. */
import { assertNever } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { counted, secondsText } from '../quantityText.ts';
import type { Forecast } from './forecast.ts';

type OrderReason = {
  readonly order: string;
  readonly than: string;
  readonly microBatches: number;
  readonly stepSeconds: number;
  /** Of the other order. */
  readonly thanSeconds: number;
} & (
  | { readonly tag: 'lessIdle' /** Percent of the other's idle time. */; readonly percent: number }
  | { readonly tag: 'shorter' }
  | { readonly tag: 'hiddenLinks' }
);

/** In which order everyone works. */
export const orderText = ({ schedule, warmup }: Pick<Plan, 'schedule' | 'warmup'>): string =>
  warmup === 'overlap' ? `${schedule} with an overlapping warm-up` : schedule;

/** Peer seconds of a step in which nothing is computed. */
const idleSeconds = ({ stepSeconds, peers }: Forecast): number =>
  [...peers.values()].reduce((sum, { busySeconds }) => sum + Math.max(0, stepSeconds - busySeconds), 0);

interface Ordered {
  readonly plan: Plan;
  readonly forecast: Forecast;
}

export function orderReason(chosen: Ordered, other: Ordered): OrderReason {
  const common = {
    ...{ order: orderText(chosen.plan), than: orderText(other.plan) },
    ...{ microBatches: chosen.plan.microBatches.length },
    ...{ stepSeconds: chosen.forecast.stepSeconds, thanSeconds: other.forecast.stepSeconds },
  };
  if (chosen.plan.schedule === other.plan.schedule && chosen.plan.warmup === 'overlap')
    return { tag: 'hiddenLinks', ...common };
  const percent = Math.round(100 * (1 - idleSeconds(chosen.forecast) / idleSeconds(other.forecast)));
  return percent > 0 ? { tag: 'lessIdle', ...common, percent } : { tag: 'shorter', ...common };
}

export function orderSentence(reason: OrderReason): string {
  const { order, than, microBatches, stepSeconds, thanSeconds } = reason;
  const times = `${secondsText(stepSeconds)} a step in place of ${secondsText(thanSeconds)}`;
  switch (reason.tag) {
    case 'lessIdle':
      return `${order}: ${reason.percent} % less idle than ${than} for ${counted(microBatches, 'micro-batch')}, ${times}.`;
    case 'shorter':
      return `${order}: a shorter step than ${than} for ${counted(microBatches, 'micro-batch')}, ${times}.`;
    case 'hiddenLinks':
      return `${order}: links hide behind work, ${times} with the normal one.`;
    default:
      return assertNever(reason);
  }
}
