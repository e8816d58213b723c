/**
 * A peer's work on micro-batches in an order that follows messages: whatever has arrived is taken as the plan's policy says,
 * when the GPU has done what was taken before. Beside each piece go what its list has beside it: a recompute before its
 * backward, a send after it, and after a stage's last backward its reduce.
 */
import { got, invariant } from '../../../swarm/base.ts';
import { type Action, formatAction, type MicroAction } from '../../../swarm/schedule/action.ts';
import type { OwnOrder } from '../../../swarm/schedule/ownOrder.ts';

export interface MessagesStep {
  run(action: Action): Promise<void>;
  /** Takes what a receive is of, whenever it comes. */
  collect(receive: MicroAction): Promise<void>;
  /** Nothing can be done until this comes, or another one. */
  awaited(receive: MicroAction, coming: Promise<void>): Promise<void>;
  /** Resolves when what was taken is computed. */
  settled(stage: number): Promise<void>;
}

/** `actions` are the peer's list; what comes after its work on micro-batches is left to the caller. */
export async function runByMessages(actions: readonly Action[], order: OwnOrder, step: MessagesStep): Promise<void> {
  const listed = new Set(actions.map(formatAction));
  const backwards = new Map<number, number>();
  for (const action of actions)
    if (action.op === 'B') backwards.set(action.stage, (backwards.get(action.stage) ?? 0) + 1);
  const arrivals = collected(actions, order, step);
  const runListed = (action: Action): Promise<void> | undefined =>
    listed.has(formatAction(action)) ? step.run(action) : undefined;
  for (let left = actions.filter(({ op }) => op === 'F' || op === 'B').length; left > 0; left--) {
    let action = order.next();
    for (; action === null; action = order.next()) await arrivals.another();
    const { op, stage, microBatch } = action;
    if (op === 'B') await runListed({ op: 'R', stage, microBatch });
    await step.run(action);
    await runListed({ op: op === 'F' ? 'SEND_F' : 'SEND_B', stage, microBatch });
    if (op === 'B') {
      const more = got(backwards, stage) - 1;
      backwards.set(stage, more);
      if (more === 0) await step.run({ op: 'REDUCE', stage });
    }
    await step.settled(stage);
    order.ended(action);
  }
}

/** Everything that is still to come is awaited at once. */
function collected(actions: readonly Action[], order: OwnOrder, step: MessagesStep) {
  const coming = new Set<MicroAction>();
  const failures: unknown[] = [];
  let wake = (): void => {};
  for (const action of actions) {
    if (action.op !== 'RECV_F' && action.op !== 'RECV_B') continue;
    coming.add(action);
    void step.collect(action).then(
      () => {
        coming.delete(action);
        order.arrived(action.op === 'RECV_F' ? 'F' : 'B', action.stage, action.microBatch);
        wake();
      },
      (cause: unknown) => {
        failures.push(cause);
        wake();
      },
    );
  }
  return {
    /** Resolves when something has come. */
    async another(): Promise<void> {
      if (failures.length > 0) throw failures[0];
      const [first] = [...coming].sort((a, b) => a.microBatch - b.microBatch);
      invariant(first, 'what is to be done and cannot begin waits for what is to come');
      await step.awaited(
        first,
        new Promise<void>((resolve) => {
          wake = resolve;
        }),
      );
      if (failures.length > 0) throw failures[0];
    },
  };
}

/** What is left of the list. */
export const afterMicroBatches = (actions: readonly Action[]): Action[] =>
  actions.filter((action) => !('microBatch' in action) && action.op !== 'REDUCE');
