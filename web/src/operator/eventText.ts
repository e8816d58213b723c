/** What happened in a run, in words for people. Pure. */
import { assertNever } from '../../../swarm/base.ts';
import type { Happened } from '../../../swarm/messages/watch.ts';
import { counted } from '../../../swarm/quantityText.ts';
import { adapterText, shortId } from '../page/format.ts';

type Fault = Extract<Happened, { kind: 'fault' }>;

const FAULTS: Readonly<Record<Fault['reason'], string>> = {
  deviceLost: 'lost its GPU',
  linkLost: 'lost its link',
  outOfMemory: 'ran out of memory',
  badFrame: 'got a broken frame',
  internal: 'failed',
};

/** Whom it was about; null: the whole run. */
export const peerOf = (event: Happened): string | null => ('peer' in event ? event.peer : null);

/** Without whom it was about; empty where its kind says everything. */
export function eventText(event: Happened): string {
  switch (event.kind) {
    case 'joined':
      return adapterText(event.adapter);
    case 'gone':
      return event.detail;
    case 'plan': {
      const { epoch, donors, reason } = event;
      return `number ${epoch}, for ${counted(donors, 'donor')}: ${reason}`;
    }
    case 'rollBack':
      return `From step ${event.atStep} to step ${event.toStep}: ${event.reason}`;
    case 'setAside':
      return `A checkpoint is given up, and the run goes on from an older one: ${event.reason}`;
    case 'fault':
      return faultText(event);
    case 'operator':
      return `${event.what} (session ${event.session})`;
    case 'left':
      return event.detail ?? '';
    case 'checkpoint':
    case 'finished':
    case 'failed':
      return '';
    default:
      return assertNever(event);
  }
}

function faultText({ reason, about, detail }: Fault): string {
  const other = about === undefined ? '' : ` to ${shortId(about)}`;
  return `${FAULTS[reason]}${other}${detail === '' ? '' : `: ${detail}`}`;
}
