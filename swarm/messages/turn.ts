/**
 * TURN servers that give a donor no address: what browsers find out, in the words by which it is told. It is a word about the
 * site's own servers, which costs nobody anything.
 */
import { z } from 'zod';

/** No URL that a browser takes needs more: a host's name has at most 253 characters. */
export const TURN_URL_LIMIT = 300;
export const MOST_TURN_ERRORS = 32;
/** The code that browsers give for a server that does not answer. */
export const TURN_UNREACHABLE = 701;

/** By the server's URL in `welcome`. Codes up to 699 are its own answers. */
export const turnErrorSchema = z.object({ url: z.string().max(TURN_URL_LIMIT), code: z.int().min(300).max(799) });
export type TurnError = z.infer<typeof turnErrorSchema>;

/** Of an RTCConfiguration's `iceServers`, as far as they can be told of. */
export function turnUrls(iceServers: readonly Readonly<Record<string, unknown>>[]): string[] {
  const all = iceServers.flatMap(({ urls }) => [urls].flat());
  const turn = all.filter((url) => typeof url === 'string' && url.length <= TURN_URL_LIMIT && /^turns?:/.test(url));
  return [...new Set(turn as string[])].slice(0, MOST_TURN_ERRORS);
}
