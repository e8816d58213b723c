/** The file of `--ice-servers`: an RTCConfiguration's `iceServers`, checked as a browser would, before any browser is. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { TURN_URL_LIMIT } from '../../swarm/messages/turn.ts';
import { parseJson } from '../../swarm/parseJson.ts';
import { readFault } from '../files/namedFile.ts';

const URL_FORM = /^(stuns?:[^\s?/@]+|turns?:[^\s?/@]+(\?transport=(udp|tcp))?)$/;
const URL_EXPECTED = 'expected stun:HOST, stuns:HOST, turn:HOST or turns:HOST, with :PORT and ?transport= at will';
const url = z.string(URL_EXPECTED).max(TURN_URL_LIMIT, URL_EXPECTED).regex(URL_FORM, URL_EXPECTED);

const iceServer = z
  .strictObject({
    urls: z.union([url, z.array(url).min(1)], URL_EXPECTED),
    username: z.string().optional(),
    credential: z.string().optional(),
    credentialType: z.literal('password').optional(),
  })
  .refine(
    ({ urls, username, credential }) =>
      ![urls].flat().some((text) => text.startsWith('turn')) || (username !== undefined && credential !== undefined),
    'a TURN server needs username and credential',
  );
const LIST_EXPECTED = 'a JSON list of ICE servers was expected, or an object whose iceServers is one';
const iceServers = z.array(iceServer, LIST_EXPECTED).max(16, 'at most 16 ICE servers were expected');
/** The list itself, or the configuration around it. */
const file = z.union([iceServers, z.object({ iceServers }, LIST_EXPECTED)]);

export type IceServer = z.infer<typeof iceServer>;

export function readIceServers(path: string): Result<IceServer[]> {
  const expected = 'a JSON list of ICE servers was expected';
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}; ${expected}`);
  }
  const read = parseJson(text);
  if (!read.ok) return refusal(`${path} ${read.reason}; ${expected}`);
  const json = read.value;
  const isList = Array.isArray(json);
  const parsed = (isList ? iceServers : file).safeParse(json);
  if (parsed.success) return success(Array.isArray(parsed.data) ? parsed.data : parsed.data.iceServers);
  return refusal(`${path}: ${problemOf(isList ? iceServers : z.object({ iceServers }, LIST_EXPECTED), json)}`);
}

function problemOf(schema: z.ZodType, json: unknown): string {
  const [issue] = schema.safeParse(json).error?.issues ?? [];
  return `${issue?.path.join('.') || 'the file'}: ${issue?.message ?? 'a list of ICE servers was expected'}`;
}
