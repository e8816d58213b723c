/**
 * What one donor's browser says to another's before they have a link: an offer, an answer, a candidate (an address at which
 * it may be reached), or a word of our own about the attempt. The server lets through nothing else, and of addresses only
 * those at which a donor can be: a browser tries every address that it is told of, also in its own home's network.
 */
import { MOST_STREAMS } from '../plan/planLink.ts';
import { addressKind } from './addresses.ts';

/** What the end that must not offer sends, in place of a signal of the link itself. */
export const CALL = 'call';
/** What the end sends that does not wait for the direct way any more. */
export const RELAYED = 'relayed';

/** A description with every candidate of a machine in it fits with room. */
export const SIGNAL_LENGTH_LIMIT = 16_384;
/** Of each end of one attempt: a machine with many interfaces has some twenty. */
export const CANDIDATES_LIMIT = 40;
/** NATs and relays give out higher ones; below are services. */
const LOWEST_PORT = 1_024;
/** What a candidate that only calls out by TCP says in place of a port. */
const DISCARD_PORT = 9;

/** Which addresses may be told: all, those outside private networks, or only a TURN server's. */
export type Told = 'all' | 'public' | 'turn';

type LinkSignal =
  | { readonly type: 'offer' | 'answer'; readonly sdp: string }
  | {
      readonly type: 'candidate';
      readonly candidate: { readonly candidate: string; readonly sdpMid: string; readonly sdpMLineIndex: number };
    };

/**
 * A link may have several connections. Signals of the first one are as they are; those of one beside it, at place 1 to
 * MOST_STREAMS − 1, have their place and a space before them.
 */
export const placedSignal = (place: number, signal: string): string => (place === 0 ? signal : `${place} ${signal}`);

export function signalPlace(data: string): { readonly place: number; readonly signal: string } {
  const place = data[1] === ' ' ? Number(data[0]) : 0;
  return place > 0 && place < MOST_STREAMS ? { place, signal: data.slice(2) } : { place: 0, signal: data };
}

/** Null: none that a data link needs. simple-peer would act on more (it renegotiates, adds media, throws). */
export function decodeSignal(data: string): LinkSignal | null {
  if (data.length > SIGNAL_LENGTH_LIMIT) return null;
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  const { type, sdp, candidate } = value as Record<string, unknown>;
  if (type === 'offer' || type === 'answer') return typeof sdp === 'string' ? { type, sdp } : null;
  if (type !== 'candidate' || typeof candidate !== 'object' || candidate === null) return null;
  const { candidate: line, sdpMid, sdpMLineIndex } = candidate as Record<string, unknown>;
  if (typeof line !== 'string' || typeof sdpMid !== 'string' || typeof sdpMLineIndex !== 'number') return null;
  return { type, candidate: { candidate: line, sdpMid, sdpMLineIndex } };
}

/** The signal without what may not be told; null: nothing of it is left, or it is none. */
export function filteredSignal(data: string, told: Told): string | null {
  if (data === CALL || data === RELAYED) return data;
  const { place, signal: text } = signalPlace(data);
  const signal = decodeSignal(text);
  if (signal === null) return null;
  const placed = (filtered: LinkSignal): string => placedSignal(place, JSON.stringify(filtered));
  if (signal.type !== 'candidate') {
    const description = placed({ ...signal, sdp: filteredDescription(signal.sdp, told) });
    return description.length > SIGNAL_LENGTH_LIMIT ? null : description;
  }
  const line = filteredCandidate(signal.candidate.candidate, told);
  return line === null ? null : placed({ ...signal, candidate: { ...signal.candidate, candidate: line } });
}

function filteredDescription(sdp: string, told: Told): string {
  let candidates = 0;
  const lines = sdp.split(/\r?\n/).flatMap((line) => {
    if (!line.startsWith('a=candidate:')) return line.startsWith('c=') ? 'c=IN IP4 0.0.0.0' : line;
    const kept = filteredCandidate(line.slice('a='.length), told);
    candidates += 1;
    return kept === null || candidates > CANDIDATES_LIMIT ? [] : `a=${kept}`;
  });
  return lines.join('\r\n');
}

/** `candidate:FOUNDATION COMPONENT PROTOCOL PRIORITY ADDRESS PORT typ TYPE …`; an empty one says that no more come. */
function filteredCandidate(line: string, told: Told): string | null {
  if (line === '') return line;
  const words = line.split(' ');
  const [, , , , address = '', port = '', typ, type = ''] = words;
  // Each word one space apart: read the same by every browser.
  if (!/^candidate:[\x21-\x7e]+( [\x21-\x7e]+)+$/.test(line) || typ !== 'typ') return null;
  if (told === 'turn' && type !== 'relay') return null;
  if (!(Number(port) >= LOWEST_PORT || Number(port) === DISCARD_PORT) || Number(port) > 65_535) return null;
  if (!mayBeTold(address, told)) return null;
  // Behind it stands the address that the outer one belongs to: nobody needs it.
  return words
    .map((word, index) => (words[index - 1] === 'raddr' ? '0.0.0.0' : words[index - 1] === 'rport' ? '0' : word))
    .join(' ');
}

/** A browser names itself in its own network by a random name, so that the page does not learn its address there. */
const ONE_TIME_NAME = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.local$/i;

function mayBeTold(address: string, told: Told): boolean {
  const kind = addressKind(address);
  if (kind === null) return told === 'all' && ONE_TIME_NAME.test(address);
  return kind === 'public' || (kind === 'private' && told === 'all');
}
