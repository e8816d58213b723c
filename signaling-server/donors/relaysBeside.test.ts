import { expect, test } from 'vitest';
import { type PeerId, peerId } from '../../swarm/base.ts';
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import { encodeEnvelope } from '../../swarm/messages/relay.ts';
import { Relay } from './relay.ts';
import { type Beside, RelaysBeside, type WentBeside } from './relaysBeside.ts';

const [ALICE, BOB, CAROL] = [peerId('alice'), peerId('bob'), peerId('carol')];
const ALL = [ALICE, BOB, CAROL];

/** All three may send each other anything; Carol's WebSocket ends at no gateway. */
function relays() {
  const said: string[] = [];
  const refused: RefusalReason[] = [];
  const spent: string[] = [];
  const hear = new Map<PeerId, (went: WentBeside) => void>();
  const relay: Relay = new Relay(
    {
      ...{ isPair: () => true, take: () => true, stepsSince: () => null },
      spent: (from, to, bytes) => spent.push(`${from} ${to} ${bytes}`),
    },
    (from, to) => beside.passed(from, to),
  );
  const beside: RelaysBeside = new RelaysBeside(relay, {
    reached: (peer) => ALL.filter((other) => other !== peer),
    handOn: () => ({ most: null, more: 10 }),
  });
  const connect = (peer: PeerId, at?: { gateway: string; socket: number }): void => {
    const way: Beside | undefined = at && {
      ...at,
      tellWays: ({ ways }) => {
        said.push(`${peer} to ${ways.map(({ to, gateway, socket }) => `${to}@${gateway}/${socket}`).join()}`);
      },
      tellSenders: ({ from }) => said.push(`${peer} from ${from.join()}`),
      hear: (listener) => void hear.set(peer, listener),
    };
    relay.connected(peer, { sendBytes: (_bytes, taken) => taken?.() });
    beside.connected(peer, { beside: way, refuse: (reason) => refused.push(reason) });
  };
  connect(ALICE, { gateway: 'one', socket: 1 });
  connect(BOB, { gateway: 'two', socket: 2 });
  connect(CAROL);
  const heard = (): string[] => said.splice(0);
  const frame = (from: PeerId, to: PeerId) => relay.accept(from, encodeEnvelope('frame', to, new Uint8Array(9)));
  return { relay, beside, connect, heard, frame, hear, said, refused, spent };
}

test('gateways hear of a pair when its first frame came by, not of others, nor of one that is looked at', () => {
  const { relay, beside, heard, frame, said } = relays();
  const tell = (): void => beside.around(ALICE, 'start', () => said.push('start'));
  tell();
  expect(heard()).toEqual(['start', 'alice from bob,carol']);
  frame(ALICE, CAROL);
  expect(heard()).toEqual([]);
  frame(ALICE, BOB);
  expect(heard()).toEqual(['alice to bob@two/2']);
  frame(ALICE, BOB);
  expect(heard()).toEqual([]);
  tell();
  expect(heard()).toEqual(['alice to bob@two/2', 'start']);
  relay.watch([[ALICE, BOB]], 1, { unsound: () => {}, slice: () => {} });
  tell();
  expect(heard()).toEqual(['alice to ', 'start']);
});

test('whose conversation goes on over another connection is reached there, and who is gone nowhere', () => {
  const { beside, connect, heard, frame, said } = relays();
  frame(ALICE, BOB);
  heard();
  connect(BOB, { gateway: 'one', socket: 7 });
  beside.moved(BOB);
  expect(heard()).toEqual(['bob from alice,carol', 'alice to bob@one/7']);
  beside.gone(BOB);
  beside.around(ALICE, 'prepare', () => said.push('prepare'));
  expect(heard()).toEqual(['alice to ', 'prepare', 'alice from bob,carol']);
});

test('what went by gateways counts as if it had come here, of the connection that is a donor’s now; a fault there is one', () => {
  const { relay, connect, hear, refused, spent } = relays();
  const old = hear.get(ALICE);
  hear.get(ALICE)?.({ sent: [{ to: BOB, frames: 2, bytes: 50 }], came: false });
  hear.get(BOB)?.({ sent: [], came: true });
  expect(relay.counts).toEqual({ frames: 2, bytes: 50, droppedFrames: 0 });
  expect([ALL.map((peer) => relay.isUsedBy(peer)), spent]).toEqual([[true, true, false], ['alice bob 50']]);
  hear.get(ALICE)?.({ sent: [], came: false, fault: 'tooManyMessages' });
  expect(refused).toEqual(['tooManyMessages']);
  connect(ALICE, { gateway: 'two', socket: 8 });
  old?.({ sent: [{ to: BOB, frames: 1, bytes: 5 }], came: false, fault: 'malformed' });
  expect([relay.counts.frames, refused.length]).toEqual([2, 1]);
});
