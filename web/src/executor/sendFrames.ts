/** A tensor's frames on their way to another donor, as its link and both ends' caps have room. */
import type { PeerId } from '../../../swarm/base.ts';
import { encodeTensor, type TensorKey } from '../../../swarm/messages/frame.ts';
import type { Meter } from './meter.ts';
import type { SessionParts } from './sessionParts.ts';
import type { Traffic } from './traffic.ts';

interface Ways {
  readonly traffic: Traffic;
  readonly meter: Meter;
  readonly page: Pick<SessionParts['page'], 'sendFrame'>;
}

/** Cuts a tensor at once (its values are only lent); `turn`: what it waits for then, to have left as this resolves. */
export async function sendTensor(
  to: PeerId,
  key: TensorKey,
  values: Float32Array,
  ways: Ways,
  signal: AbortSignal,
  turn?: Promise<unknown>,
): Promise<void> {
  const frames = encodeTensor(key, values);
  if (turn) await turn;
  await sendFrames(to, frames, ways, signal, turn !== undefined);
}

/** `hasLeft`: resolves when the last one has left this end, not when it was taken. */
export const sendFrames = (
  to: PeerId,
  frames: readonly ArrayBuffer[],
  ways: Ways,
  signal: AbortSignal,
  hasLeft = false,
): Promise<void> => ways.meter.sending(to, sendEach(to, frames, ways, signal, hasLeft));

async function sendEach(
  to: PeerId,
  frames: readonly ArrayBuffer[],
  { traffic, meter, page }: Ways,
  signal: AbortSignal,
  hasLeft: boolean,
): Promise<void> {
  for (const [place, frame] of frames.entries()) {
    await traffic.maySend(to, frame.byteLength);
    signal.throwIfAborted();
    meter.sent(frame.byteLength);
    await page.sendFrame(to, frame, hasLeft && place === frames.length - 1);
  }
}
