import { expect, test } from 'vitest';
import { TURN_SILENCE_MS, TurnGathering } from './turnGathering.ts';

const ICE_SERVERS = [
  { urls: 'stun:s.example' },
  { urls: ['turn:T.example', 'turns:t.example:443'], username: 'u', credential: 'c' },
  { urls: 'turn:[2001:db8::1]?transport=tcp', username: 'u', credential: 'c' },
];
const [UDP, TLS, TCP] = ['turn:T.example', 'turns:t.example:443', 'turn:[2001:db8::1]?transport=tcp'] as const;
/** As Chromium names them. */
const BY_UDP = 'turn:t.example:3478?transport=udp';
const BY_TLS = 'turns:t.example:443?transport=tcp';
const BY_TCP = 'turn:[2001:db8::1]:3478?transport=tcp';

function gathering(...events: readonly ((of: TurnGathering) => void)[]): TurnGathering {
  const of = new TurnGathering(ICE_SERVERS);
  of.began(1_000);
  for (const event of events) event(of);
  return of;
}
const fails = (url: string, errorCode: number) => (of: TurnGathering) => of.failed({ url, errorCode });
const relays = (url?: string) => (of: TurnGathering) => of.found({ type: 'relay', ...(url && { url }) });
const complete = (of: TurnGathering) => of.answers('complete', 1_200);

test('a server that refuses is named as in the welcome, with its code; a STUN server, and any other, is not', () => {
  const events = [fails(BY_UDP, 401), fails(BY_TLS, 486), fails(BY_TCP, 701), fails('stun:s.example:3478', 701)];
  expect(complete(gathering(...events, fails('turn:t.example:9?transport=udp', 401)))).toEqual([
    { url: UDP, code: 401 },
    { url: TLS, code: 486 },
    { url: TCP, code: 701 },
  ]);
});

test('one interface without an answer is nothing where another got an address, in whatever order', () => {
  for (const events of [
    [fails(BY_UDP, 701), relays(BY_UDP)],
    [relays(BY_UDP), fails(BY_UDP, 701)],
    [fails(BY_UDP, 701), relays()], // not every browser says by which server
  ])
    expect(complete(gathering(...events))).toContainEqual({ url: UDP, code: null });
  expect(complete(gathering(fails(BY_UDP, 701), relays(BY_TLS)))).toEqual([
    { url: UDP, code: 701 },
    { url: TLS, code: null },
  ]);
  const candidate = (of: TurnGathering) => of.found({ type: 'host', url: '' });
  expect(complete(gathering(fails(BY_UDP, 701), candidate))).toEqual([{ url: UDP, code: 701 }]);
});

test('each has one code, what it answered before that it did not', () => {
  for (const codes of [
    [701, 401, 701],
    [401, 701],
  ])
    expect(complete(gathering(...codes.map((code) => fails(BY_UDP, code))))).toEqual([{ url: UDP, code: 401 }]);
  for (const code of [0, 200, 750, 1e9, Number.NaN])
    expect(complete(gathering(fails(BY_UDP, code)))).toEqual([{ url: UDP, code: 701 }]);
});

test('a search that is cut off tells of silence after 15 s, and before only what was answered', () => {
  const events = [fails(BY_UDP, 701), fails(BY_TLS, 403)];
  const end = 1_000 + TURN_SILENCE_MS;
  expect(gathering(...events).answers('cut', end - 1)).toEqual([{ url: TLS, code: 403 }]);
  expect(gathering(...events, relays(BY_TCP)).answers('cut', end)).toEqual([
    { url: UDP, code: 701 },
    { url: TLS, code: 403 },
    { url: TCP, code: null },
  ]);
  // Chromium itself says so only after 40 s.
  const silent = gathering().answers('cut', end);
  expect(silent).toEqual([UDP, TLS, TCP].map((url) => ({ url, code: 701 })));
  expect(new TurnGathering(ICE_SERVERS).answers('cut', 1e9)).toEqual([]); // the other end never began
});

test('a connection that is there needs no answer of a server, but what one refused stands', () => {
  const connected = (of: TurnGathering) => of.connected();
  const of = gathering(fails(BY_UDP, 701), fails(BY_TLS, 401), connected);
  for (const end of ['complete', 'cut'] as const) expect(of.answers(end, 1e9)).toEqual([{ url: TLS, code: 401 }]);
});
