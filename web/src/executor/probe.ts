/**
 * The link to a donor with whom no plan has anything to do, measured because the server asks: it opens beside the work, and
 * what is sent over it begins where one step ends, under the donor's caps and counted with everything else that it sends.
 */
import { probeFrames } from '../../../swarm/messages/frame.ts';
import type { ServerMessage } from '../../../swarm/messages/messages.ts';
import type { Epochs } from './epochs.ts';
import type { Meter } from './meter.ts';
import type { SessionParts } from './sessionParts.ts';
import type { Traffic } from './traffic.ts';

export interface ProbeParts {
  readonly page: Pick<SessionParts['page'], 'sendServer'>;
  readonly ways: Pick<SessionParts['ways'], 'openDirect' | 'measure'>;
  readonly traffic: Pick<Traffic, 'maySend'>;
  readonly meter: Pick<Meter, 'sent'>;
  readonly epochs: Pick<Epochs, 'current'>;
}

export async function probeLink(
  { peer, epoch }: Extract<ServerMessage, { type: 'probe' }>,
  { page, ways, traffic, meter, epochs }: ProbeParts,
): Promise<void> {
  if (!(await ways.openDirect(peer, epoch))) return;
  await epochs.current?.work; // until the step in progress has ended, where there is one
  const frames = probeFrames(epoch);
  for (const { byteLength } of frames) {
    await traffic.maySend(peer, byteLength);
    meter.sent(byteLength);
  }
  const measured = await ways.measure(peer, frames);
  if (measured) page.sendServer({ type: 'probed', peer, ...measured });
}
