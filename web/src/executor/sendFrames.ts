/** A tensor's frames on their way to another donor, as its link and both ends' caps have room. */
import type { PeerId } from '../../../swarm/base.ts';
import type { Meter } from './meter.ts';
import type { SessionParts } from './sessionParts.ts';
import type { Traffic } from './traffic.ts';

interface Ways {
  readonly traffic: Traffic;
  readonly meter: Meter;
  readonly page: Pick<SessionParts['page'], 'sendFrame'>;
}

export const sendFrames = (
  to: PeerId,
  frames: readonly ArrayBuffer[],
  ways: Ways,
  signal: AbortSignal,
): Promise<void> => ways.meter.sending(to, sendEach(to, frames, ways, signal));

async function sendEach(
  to: PeerId,
  frames: readonly ArrayBuffer[],
  { traffic, meter, page }: Ways,
  signal: AbortSignal,
): Promise<void> {
  for (const frame of frames) {
    await traffic.maySend(to, frame.byteLength);
    signal.throwIfAborted();
    meter.sent(frame.byteLength);
    await page.sendFrame(to, frame);
  }
}
