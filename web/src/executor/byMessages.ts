/**
 * A peer's work on micro-batches in an order that follows messages: whatever has arrived is taken as the plan's policy says,
 * when the GPU has done what was taken before. Beside each piece go what its list has beside it: a recompute before its
 * backward, unless the policy says when (SC16), a send after it, and after a stage's last backward its reduce.
 */
import { got, invariant } from '../../../swarm/base.ts';
import { type Action, type ComputeAction, formatAction, type MicroAction } from '../../../swarm/schedule/action.ts';
import type { OwnOrder } from '../../../swarm/schedule/ownOrder.ts';

interface MessagesStep {
  run(action: Action): Promise<void>;
  /** Who waits for that in the stage before hears that this backward begins. */
  begin(backward: ComputeAction): void;
  /** The word that the next stage has begun its backward of a micro-batch that this stage has; null: nobody sends one. */
  beginning(stage: number, microBatch: number): Promise<void> | null;
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
  const runBackward = async (action: ComputeAction): Promise<void> => {
    const { stage, microBatch } = action;
    step.begin(action);
    await runListed({ op: 'R', stage, microBatch });
    await step.run(action);
    await runListed({ op: 'SEND_B', stage, microBatch });
    const more = got(backwards, stage) - 1;
    backwards.set(stage, more);
    if (more === 0) await step.run({ op: 'REDUCE', stage });
  };
  for (let left = actions.filter(({ op }) => op === 'F' || op === 'B').length; left > 0; ) {
    let action = order.next();
    for (; action === null; action = order.next()) await arrivals.another();
    if (action.op !== 'R') left--;
    if (action.op === 'B') await runBackward(action);
    else await step.run(action);
    if (action.op === 'F') await runListed({ ...action, op: 'SEND_F' });
    // Where the policy says when, it is not done again beside the backward.
    if (action.op === 'R') listed.delete(formatAction(action));
    await step.settled(action.stage);
    order.ended(action);
  }
}

/** Everything that is still to come is awaited at once. */
function collected(actions: readonly Action[], order: OwnOrder, step: MessagesStep) {
  const coming = new Set<MicroAction>();
  const failures: unknown[] = [];
  let wake = (): void => {};
  const noted = (arrival: Promise<void>, note: () => void): void =>
    void arrival.then(note, (cause: unknown) => void failures.push(cause)).then(() => wake());
  for (const action of actions) {
    if (action.op !== 'RECV_F' && action.op !== 'RECV_B') continue;
    const { op, stage, microBatch } = action;
    coming.add(action);
    noted(step.collect(action), () => {
      coming.delete(action);
      order.arrived(op === 'RECV_F' ? 'F' : 'B', stage, microBatch);
    });
    const beginning = op === 'RECV_B' ? step.beginning(stage, microBatch) : null;
    if (beginning) noted(beginning, () => order.begun(stage + 1, microBatch));
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
