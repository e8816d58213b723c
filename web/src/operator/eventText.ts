/** What happened in a run, in words for people. Pure. */
import { assertNever } from '../../../swarm/base.ts';
import type { Happened } from '../../../swarm/messages/watch.ts';
import { counted } from '../../../swarm/quantityText.ts';
import { adapterText } from '../page/format.ts';
import { plainReason } from '../page/plainReason.ts';

type Fault = Extract<Happened, { kind: 'fault' }>;

const FAULTS: Readonly<Record<Fault['reason'], string>> = {
  deviceLost: 'lost its GPU',
  linkLost: 'lost its link',
  outOfMemory: 'ran out of memory',
  badFrame: 'got damaged data',
  internal: 'ran into an error',
  noPacket: 'was not told at a meeting what an island did',
  notPublished: 'was not sent what came of a meeting',
};

/** Whom it was about; null: the whole run. */
export const peerOf = (event: Happened): string | null => ('peer' in event ? event.peer : null);

/** Without whom it was about; empty where its kind says everything. */
export function eventText(event: Happened): string {
  switch (event.kind) {
    case 'joined':
      return adapterText(event.adapter);
    case 'gone':
      return plainReason(event.detail);
    case 'plan': {
      const { epoch, donors, reason } = event;
      return `number ${epoch}, for ${counted(donors, 'donor')}: ${plainReason(reason)}`;
    }
    case 'rollBack':
      return `from step ${event.atStep} to step ${event.toStep}: ${plainReason(event.reason)}`;
    case 'setAside':
      return 'It could not be read any more, so the run goes on from an older one';
    case 'fault':
      return faultText(event);
    case 'operator':
      return `${event.what} (session ${event.session})`;
    case 'left':
      return plainReason(event.detail ?? '');
    case 'convicted':
      return `its work at stage ${event.stage} came out wrong when the server did it again; all since step ${event.firstStep + 1} is undone`;
    case 'checkpoint':
    case 'finished':
    case 'failed':
      return '';
    default:
      return assertNever(event);
  }
}

function faultText({ reason, about }: Fault): string {
  return `${FAULTS[reason]}${about === undefined ? '' : ` to ${about}`}`;
}

/** The technical words that `eventText` leaves out; null: it leaves out none. */
export function eventDetail(event: Happened): string | null {
  switch (event.kind) {
    case 'fault':
    case 'gone':
    case 'left': {
      const { detail = '' } = event;
      return detail === '' || (event.kind !== 'fault' && plainReason(detail) === detail) ? null : detail;
    }
    case 'convicted':
      return event.evidence;
    case 'setAside':
      return event.reason;
    case 'plan':
    case 'rollBack':
      return plainReason(event.reason) === event.reason ? null : event.reason;
    case 'joined':
    case 'operator':
    case 'checkpoint':
    case 'finished':
    case 'failed':
      return null;
    default:
      return assertNever(event);
  }
}
