/**
 * What one connection's search for its own addresses tells of the TURN servers that it was given. A browser asks each of
 * them from each of its network interfaces, so that one interface without an answer is ordinary: a server counts as
 * unreachable where no interface got an address of it. Chromium 156 says so only after 40 s where nothing answers by UDP, when an
 * attempt at a link is long over; therefore a search that is cut off after some seconds counts, too. Pure.
 */
import { TURN_UNREACHABLE, turnUrls } from '../../../swarm/messages/turn.ts';

/** A server of which nothing has come by then does not answer: that is nine tries by UDP. */
export const TURN_SILENCE_MS = 15_000;

/** Null: the server gave an address. */
export interface TurnAnswer {
  readonly url: string;
  readonly code: number | null;
}

/** As far as it is needed; Firefox and Safari need not say by which server a candidate was found. */
type Found = Pick<RTCIceCandidate, 'type'> & { readonly url?: string | null };
type Failed = Pick<RTCPeerConnectionIceErrorEvent, 'url' | 'errorCode'>;

export class TurnGathering {
  /** By the form in which a browser names them. */
  readonly #urls: ReadonlyMap<string, string>;
  readonly #working = new Set<string>();
  readonly #codes = new Map<string, number>();
  #beganMs = Infinity;
  #isConnected = false;

  constructor(iceServers: readonly Readonly<Record<string, unknown>>[]) {
    this.#urls = new Map(turnUrls(iceServers).map((url) => [wholeUrl(url), url]));
  }

  began(nowMs: number): void {
    this.#beganMs = Math.min(this.#beganMs, nowMs);
  }

  found({ type, url }: Found): void {
    if (type !== 'relay') return;
    for (const one of url ? [wholeUrl(url)] : this.#urls.keys()) this.#working.add(one);
  }

  failed({ url, errorCode }: Failed): void {
    const known = wholeUrl(url);
    // An answer says more than that there was none.
    if (this.#urls.has(known) && isAnswer(errorCode)) this.#codes.set(known, errorCode);
    else if (this.#urls.has(known) && !this.#codes.has(known)) this.#codes.set(known, TURN_UNREACHABLE);
  }

  /** A browser that has its way asks no further. */
  connected(): void {
    this.#isConnected = true;
  }

  /** Of servers of which something is known, at the end of the search: all was asked, or the connection was closed before. */
  answers(end: 'complete' | 'cut', nowMs: number): TurnAnswer[] {
    const isLong = end === 'cut' && nowMs - this.#beganMs >= TURN_SILENCE_MS;
    return [...this.#urls].flatMap(([name, url]) => {
      if (this.#working.has(name)) return { url, code: null };
      const code = this.#codes.get(name) ?? (isLong ? TURN_UNREACHABLE : null);
      const isKnown = code !== TURN_UNREACHABLE || (!this.#isConnected && (isLong || end === 'complete'));
      return code !== null && isKnown ? { url, code } : [];
    });
  }
}

const isAnswer = (code: number): boolean => Number.isInteger(code) && code >= 300 && code <= 699;

/** With the port and the transport that it has where it names none; anything else as it is. */
function wholeUrl(url: string): string {
  const parts = /^(turns?):(\[[^\]]+\]|[^:?]+)(?::(\d+))?(?:\?transport=(udp|tcp))?$/.exec(url.toLowerCase());
  if (!parts) return url;
  const [, scheme, host, port = scheme === 'turns' ? '5349' : '3478', transport] = parts;
  return `${scheme}:${host}:${port}?transport=${transport ?? (scheme === 'turns' ? 'tcp' : 'udp')}`;
}
