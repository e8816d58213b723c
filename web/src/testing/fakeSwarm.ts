/** Meshes of a few tabs, for tests: links in memory, a clock that stands still, a server that carries signals and relays. */
import { type PeerId, peerId } from '../../../swarm/base.ts';
import { creditContent, decodeEnvelope, encodeEnvelope } from '../../../swarm/messages/relay.ts';
import { Mesh } from '../net/mesh.ts';
import { type FakeConnection, fakeNetwork } from './fakeLink.ts';

export const ALICE = peerId('alice');
export const BOB = peerId('bob');
export const CAROL = peerId('carol');

interface Tab {
  readonly mesh: Mesh;
  readonly frames: { from: PeerId; bytes: number }[];
  readonly lost: PeerId[];
}

/** Tabs on one fake network and one fake server, which delivers signals one microtask later, or swallows them. */
export function swarm(...peers: PeerId[]) {
  const network = fakeNetwork();
  const clock = { nowMs: 0 };
  const server = {
    swallow: false,
    relayedFrames: 0,
    carried: [] as { from: PeerId; to: PeerId; epoch: number; attempt: number; data: string }[],
  };
  const relay = (from: PeerId, message: Uint8Array<ArrayBuffer>): void => {
    const envelope = decodeEnvelope(message);
    if (!envelope.ok) throw new Error(envelope.reason);
    const { kind, peer: to, content } = envelope.value;
    tabs.get(to)?.mesh.onBytes(encodeEnvelope(kind, from, content).buffer);
    if (kind !== 'frame') return;
    server.relayedFrames += 1;
    tabs.get(from)?.mesh.onBytes(encodeEnvelope('credit', to, creditContent(content.length)).buffer);
  };
  const tabs = new Map<PeerId, Tab>();
  for (const me of peers) {
    const frames: Tab['frames'] = [];
    const lost: PeerId[] = [];
    const mesh = new Mesh({
      me,
      iceServers: [],
      openLink: network.openLink,
      now: () => clock.nowMs,
      sendSignal(to, epoch, attempt, data) {
        server.carried.push({ from: me, to, epoch, attempt, data });
        if (!server.swallow) queueMicrotask(() => tabs.get(to)?.mesh.signalled(me, epoch, attempt, data));
      },
      sendBytes(message) {
        queueMicrotask(() => relay(me, message));
        return true;
      },
      onFrame: (from, message) => frames.push({ from, bytes: message.byteLength }),
      onLost: (peer) => lost.push(peer),
    });
    mesh.allow(new Set(peers));
    tabs.set(me, { mesh, frames, lost });
  }
  const tab = (peer: PeerId): Tab => {
    const found = tabs.get(peer);
    if (!found) throw new Error(`no tab ${peer}`);
    return found;
  };
  return { tab, clock, server, links: network.links };
}

/** Lets every microtask of the fakes run. */
export const quiet = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
export const openLinks = (links: readonly FakeConnection[]): FakeConnection[] =>
  links.filter(({ state }) => state === 'open');
