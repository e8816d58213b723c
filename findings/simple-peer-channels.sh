#!/usr/bin/env bash
# What:     simple-peer 9.11.1 (npm) across from a plain RTCPeerConnection with two data channels (@roamhq/wrtc 0.9.1). 2026-11-29.
# Guessed:  it takes the first channel and leaves the second one alone: it is documented as a stream over one.
# Seen:     what comes on either channel is one stream of `data`, without a word of which; its own sends go on the channel that
#           came last, so the first one gets no answer; and closing the second one destroys the peer, the first one too.
# Matters:  another implementation that opens a channel for control beside one for data has both mixed up, and the connection
#           ends with whichever it closes first.
# Instead:  make all channels on both ends with `negotiated` and ids of their own, beside simple-peer's.
source "$(dirname "$0")/common.sh"
enter simple-peer@9.11.1 @roamhq/wrtc@0.9.1
cat > run.mjs <<'JS'
import { once } from 'node:events';
import wrtc from '@roamhq/wrtc';
import SimplePeer from 'simple-peer';
import { end, say } from './say.mjs';

const plain = new wrtc.RTCPeerConnection();
const peer = new SimplePeer({ wrtc });
const channels = ['first', 'second'].map((label) => plain.createDataChannel(label));
const got = { peer: [], first: [], second: [] };
for (const channel of channels) channel.onmessage = ({ data }) => got[channel.label].push(Buffer.from(data).toString());
peer.on('data', (data) => got.peer.push(data.toString()));
plain.onicecandidate = ({ candidate }) => candidate && peer.signal({ candidate });
peer.on('signal', (data) => (data.sdp ? plain.setRemoteDescription(data) : plain.addIceCandidate(data.candidate)));
const open = Promise.all([...channels.map((channel) => once(channel, 'open')), once(peer, 'connect')]);
await plain.setLocalDescription(await plain.createOffer());
peer.signal(plain.localDescription);
await open;

const settled = () => new Promise((resolve) => setTimeout(resolve, 1_000));
await settled();
for (const channel of channels) channel.send(`on ${channel.label}`);
peer.send('an answer');
await settled();
say('what the peer hears', ['on first'], ['on first', 'on second'], got.peer.toSorted());
say('who hears its answer', { first: 1, second: 0 }, { first: 0, second: 1 }, { first: got.first.length, second: got.second.length });
channels[1].close();
await settled();
say('the first channel, once the second one is closed', 'open', 'closed', channels[0].readyState);
say('the peer is destroyed', false, true, peer.destroyed);
end();
JS
node run.mjs
