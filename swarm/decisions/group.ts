/**
 * One group of donors with all that is decided for it: the coordinator, who runs its steps, and the replanner, who makes
 * its plans, each told what the other one does. A run without islands, or one whose islands are done by turns, has one.
 */
import { replan } from '../autoplan/replanner.ts';
import type { ReplannerEffect, ReplannerEvent, ReplannerState } from '../autoplan/replannerState.ts';
import type { CoordinatorEvent, Effect, PlanAnswer } from '../coordinator/events.ts';
import type { OwnIslands } from '../coordinator/ownIslands.ts';
import { type CoordinatorState, planInForce } from '../coordinator/state.ts';
import { step } from '../coordinator/step.ts';
import { offerOf } from '../coordinator/successor.ts';
import type { AllGroups } from '../coordinator/transition.ts';

export interface Group {
  readonly coordinator: CoordinatorState;
  readonly replanner: ReplannerState;
}

export type GroupEffect = Exclude<Effect, { type: 'planWanted' }> | Exclude<ReplannerEffect, { type: 'planned' }>;

/** Of one event, what each of the two is told; null: nothing. */
export interface GroupEvent {
  readonly replanner: ReplannerEvent | null;
  readonly coordinator: CoordinatorEvent | null;
}

/** `isHeldBack`: a plan that is wanted is not made: its donors are to be others. */
export function decideGroup(
  before: Group,
  event: GroupEvent,
  now: number,
  groups: AllGroups,
  isHeldBack: (group: Group) => boolean,
): [Group, GroupEffect[]] {
  let group = before;
  const effects: GroupEffect[] = [];
  // What one is told because of the other waits until all effects of the other stand: they are performed in this order.
  const waiting: (() => void)[] = [];
  const toReplanner = (told: ReplannerEvent): void => {
    const { coordinator } = group;
    const { epoch } = coordinator;
    const view = { offer: offerOf(coordinator), plan: planInForce(coordinator)?.plan ?? null, epoch };
    const [next, caused] = replan(group.replanner, told, now, view);
    group = { ...group, replanner: next };
    for (const effect of caused)
      if (effect.type === 'planned') waiting.push(() => toCoordinator(withIslands(effect, coordinator.config)));
      else effects.push(effect);
  };
  const toCoordinator = (told: CoordinatorEvent): void => {
    const [next, caused] = step(group.coordinator, told, now, groups);
    group = { ...group, coordinator: next };
    // Of a start that goes to a thousand donors one is enough.
    const start = caused.find(isStart);
    for (const effect of caused) {
      if (effect.type !== 'planWanted') effects.push(effect);
      else if (!isHeldBack(group)) waiting.push(() => toReplanner(effect));
      if (effect === start || isProgress(effect)) waiting.push(() => toReplanner({ type: 'doing', effect }));
    }
  };
  const settle = (): void => {
    for (let next = waiting.shift(); next; next = waiting.shift()) next();
  };
  // What is known of a donor is known before its word changes anything.
  if (event.replanner !== null) toReplanner(event.replanner);
  settle();
  if (event.coordinator !== null) toCoordinator(event.coordinator);
  settle();
  toReplanner({ type: 'settled' });
  settle();
  return [group, effects];
}

/** Whose plan it is says which islands its donors compute. */
function withIslands(
  { type, ask, answer }: Extract<ReplannerEffect, { type: 'planned' }>,
  { own: islands, owned }: OwnIslands,
): Extract<CoordinatorEvent, { type: 'planned' }> {
  if (islands === undefined || answer.answer !== 'plan') return { type, ask, answer };
  const own: PlanAnswer = { ...answer, plan: { ...answer.plan, islands, ...(owned && { owned }) } };
  return { type, ask, answer: own };
}

const isStart = (effect: Effect): boolean => effect.type === 'send' && effect.message.type === 'start';

/** What the replanner measures the plan in force by. */
const isProgress = ({ type }: Effect): boolean => type !== 'send' && type !== 'log' && type !== 'publish';
