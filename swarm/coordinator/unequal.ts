/**
 * Where the keepers of a shard did not get the same slices, the step is done again, then through the server, and then it
 * goes on without the one that differs. Rules RE in SPEC.md.
 */
import { got } from '../base.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { holders } from '../plan/plan.ts';
import { differ, relay, throwOut } from './blame.ts';
import type { CoordinatorEvent, Pair } from './events.ts';
import { tryAgain } from './planInForce.ts';
import { keeperKey, shardKey, type Training } from './state.ts';
import type { Unequal } from './tally.ts';
import { change, donorOf, log, type Transition } from './transition.ts';

/** What the server saw itself needs nobody's word. */
export function unequalRelayed(
  transition: Transition,
  { epoch, from }: Extract<CoordinatorEvent, { type: 'unequalRelayed' }>,
) {
  if (epoch !== transition.state.epoch || !donorOf(transition, from)) return;
  const why = 'the server saw that it sent the keepers of a shard different slices';
  throwOut(transition, from, why, `${from} was refused: ${why}`);
}

/** Keepers say that they did not get the same slices. */
export function unequal(transition: Transition, phase: Training, shards: readonly Unequal[]) {
  const { attempts, relayed, config } = transition.state;
  const keys = shards.map(({ block, range }) => shardKey(block, range));
  const who = new Set(shards.flatMap(({ keepers }) => keepers));
  const sentence = `${[...who].join(', ')} did not get the same slices of ${keys[0]}${keys.length > 1 ? ' and others' : ''}`;
  log(transition, 'warn', `${sentence}.`);
  change(transition, { attempts: { ...attempts, unequal: [...attempts.unequal, ...keys] } });
  const again = shards.filter((_, place) => attempts.unequal.includes(keys[place] ?? ''));
  if (again.length === 0) return tryAgain(transition, sentence);
  const order = holders(acceptedModel(config), phase.inForce.plan);
  const pairs = again.flatMap(({ block, keepers }) =>
    got(order, block).flatMap(({ peer }) =>
      keepers.flatMap((keeper): Pair[] => (keeper === peer ? [] : [[peer, keeper]])),
    ),
  );
  relay(transition, pairs);
  // Through the server a holder that sends each of them something else is seen to do so.
  if (transition.state.relayed.length > relayed.length) return tryAgain(transition, sentence);
  distrust(transition, phase, again, sentence);
}

/** Nobody sent them different slices: it goes on without the replicas, and in the end without whoever differs from several. */
function distrust(transition: Transition, phase: Training, shards: readonly Unequal[], sentence: string) {
  const pairs = new Map(
    shards.flatMap(({ keepers: [primary, ...replicas] }) =>
      replicas.map((replica) => [`${primary} ${replica}`, [primary, replica] as const]),
    ),
  );
  for (const [primary, replica] of pairs.values()) {
    const culprit = differ(transition, primary, replica);
    if (culprit !== undefined)
      return throwOut(transition, culprit, sentence, `${culprit} differs from several: ${sentence}`);
  }
  // What they have of the committed steps is as good as ever: it is stale with the next commit.
  const more = shards.flatMap(({ block, range, keepers: [, ...replicas] }) =>
    replicas.map((replica) => keeperKey(replica, shardKey(block, range))),
  );
  const { inForce } = phase;
  change(transition, { phase: { ...phase, inForce: { ...inForce, unheeded: [...inForce.unheeded, ...more] } } });
  tryAgain(transition, sentence);
}
