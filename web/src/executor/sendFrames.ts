/** A tensor's frames on their way to another donor, as its link and both ends' caps have room. */
import type { PeerId } from '../../../swarm/base.ts';
import { encodeTensor, type TensorKey } from '../../../swarm/messages/frame.ts';
import type { Meter } from './meter.ts';
import type { Ways } from './sessionParts.ts';
import type { Traffic } from './traffic.ts';

interface Sending {
  readonly traffic: Traffic;
  readonly meter: Meter;
  readonly ways: Pick<Ways, 'sendFrame'>;
}

/** Cuts a tensor at once (its values are only lent); `turn`: what it waits for then, to have left as this resolves. */
export async function sendTensor(
  to: PeerId,
  key: TensorKey,
  values: Float32Array,
  sending: Sending,
  signal: AbortSignal,
  turn?: Promise<unknown>,
): Promise<void> {
  const frames = encodeTensor(key, values);
  if (turn) await turn;
  await sendFrames(to, frames, sending, signal, turn !== undefined);
}

/** `hasLeft`: resolves when the last one has left this end, not when it was taken. */
export const sendFrames = (
  to: PeerId,
  frames: readonly ArrayBuffer[],
  sending: Sending,
  signal: AbortSignal,
  hasLeft = false,
): Promise<void> => sending.meter.sending(to, sendEach(to, frames, sending, signal, hasLeft));

/** As `sendFrames`, of what no step waits for. */
export async function sendEach(
  to: PeerId,
  frames: readonly ArrayBuffer[],
  { traffic, meter, ways }: Sending,
  signal: AbortSignal | null = null,
  hasLeft = false,
): Promise<void> {
  for (const [place, frame] of frames.entries()) {
    await traffic.maySend(to, frame.byteLength);
    signal?.throwIfAborted();
    meter.sent(frame.byteLength);
    await ways.sendFrame(to, frame, hasLeft && place === frames.length - 1);
  }
}
