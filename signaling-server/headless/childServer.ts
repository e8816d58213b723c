/**
 * A server in a process of its own, as whoever started it and the process itself see each other: orders go down and words
 * come up over the process's own channel. When that closes, whoever is left ends.
 */
import { type ChildProcess, fork, type Serializable } from 'node:child_process';
import { once } from 'node:events';
import type { z } from 'zod';
import { invariant } from '../../swarm/base.ts';
import { COMMAND_FILE } from '../files/projectRoot.ts';

/** Runs a hidden command of ours; what it prints is printed here. */
export const forkCommand = (name: string): ChildProcess =>
  fork(COMMAND_FILE, [name], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });

/** One that has ended hears nothing. */
export function tell(child: ChildProcess, order: Serializable): void {
  if (child.connected) child.send(order, () => {});
}

export async function exit(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

interface Above<Order, Word> {
  readonly first: Order;
  say(word: Word): void;
  onOrder(listener: (order: Order) => void): void;
}

/** In the child: resolves at the first order. What comes before anybody listens is kept for who does. */
export async function awaitOrders<Order, Word extends Serializable>(
  schema: z.ZodType<Order>,
): Promise<Above<Order, Word>> {
  // Ctrl-C reaches the whole group: when this server ends is the other process's to say.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
  process.on('disconnect', () => process.exit(1));
  const early: Order[] = [];
  let hear = (order: Order): void => void early.push(order);
  process.on('message', (message) => hear(schema.parse(message)));
  await once(process, 'message');
  const first = early.shift();
  invariant(first !== undefined, 'the first order is heard');
  return {
    first,
    say: (word) => void process.send?.(word, undefined, undefined, () => {}),
    onOrder: (listener) => {
      hear = listener;
      for (const order of early.splice(0)) listener(order);
    },
  };
}
