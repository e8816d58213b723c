/** What a peer does once a step is committed: its update, the end of an island's turn, the new values out and in. */
import { invariant, type PeerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import type { TurnEnd } from '../../../swarm/schedule/action.ts';
import type { BesideLog } from './besideLog.ts';
import type { Reading, UpdateScalars } from './engine.ts';
import type { Role } from './role.ts';
import type { Surroundings } from './surroundings.ts';
import { gatherValues, sendValues } from './values.ts';

interface Committed {
  readonly role: Role;
  readonly around: Surroundings;
  readonly step: number;
  readonly beside: BesideLog;
}

/** What lies in main memory is updated while the GPU updates its own, and goes on beside what comes next: a span each. */
export async function update(
  { role: { shards, kept }, around, beside }: Committed,
  scalars: UpdateScalars | null,
  settled: () => Promise<void>,
): Promise<void> {
  invariant(scalars, 'a step is committed before its update');
  const submit = (): void => {
    const updated = Promise.resolve(shards.update(scalars));
    updated.catch(() => undefined); // whoever waits for a shard hears of it
    if (kept.some((work) => work.in === 'host')) beside.until({ op: 'UPDATE_HOST' }, updated);
    if (kept.some((work) => work.in !== 'host')) beside.until({ op: 'UPDATE' }, settled());
  };
  await around.throttle.run({ op: 'update' }, submit, settled);
}

export async function endTurn({ role, step, beside }: Committed, op: TurnEnd): Promise<void> {
  const done = role.islands?.stepDone(step) ?? Promise.resolve();
  beside.until({ op }, done);
  await done;
}

type Send = (to: PeerId, key: TensorKey, reading: Reading) => void;

/** Until all of them stand in the queue of what is sent. */
export async function passOn({ role, around, step, beside }: Committed, send: Send): Promise<void> {
  const passed = sendValues(role, step, send, around.endsTurn);
  beside.until({ op: 'SEND_V' }, passed);
  await passed;
}

export async function takeNew({ role, around, step, beside }: Committed, stage: number): Promise<void> {
  const taken = gatherValues(role, stage, step, around.receive, around.endsTurn);
  beside.until({ op: 'GATHER', stage }, taken);
  await taken;
}
