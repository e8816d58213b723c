import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { PROBE_BYTES } from '../../../swarm/messages/frame.ts';
import type { PeerMessage } from '../../../swarm/messages/messages.ts';
import type { Epoch } from './epochs.ts';
import { type ProbeParts, probeLink } from './neighbours.ts';

const B = peerId('b');
const ASKED = { type: 'probe', peer: B, epoch: 3 } as const;

/** A tab in whose step a link opens; `log` has what happened, in order. */
function tab(opens: boolean) {
  const log: string[] = [];
  const said: PeerMessage[] = [];
  let endStep = (): void => {};
  const work = new Promise<void>((resolve) => {
    endStep = () => {
      log.push('the step ends');
      resolve();
    };
  });
  const current: Epoch = { number: 3, abort: new AbortController(), work, before: null, fault: null };
  const parts: ProbeParts = {
    page: { sendServer: (message) => void said.push(message) },
    ways: {
      openDirect: async (peer, epoch) => {
        log.push(`openDirect ${peer} e${epoch}`);
        return opens;
      },
      measure: async (_peer, messages) => {
        log.push(`measure ${messages.reduce((sum, { byteLength }) => sum + byteLength, 0)}`);
        return { roundTripMs: 4, bytesPerSecond: null };
      },
    },
    traffic: { maySend: async (to, bytes) => void log.push(`may send ${to} ${bytes}`) },
    meter: { sent: (bytes) => void log.push(`sent ${bytes}`) },
    epochs: { current },
  };
  return { log, said, parts, endStep };
}

const quiet = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('[WP29] a link opens beside the step; what measures it waits for the step’s end and for the donor’s caps, and counts', async () => {
  const { log, said, parts, endStep } = tab(true);
  const probing = probeLink(ASKED, parts);
  await quiet();
  expect(log).toEqual(['openDirect b e3']);
  endStep();
  await probing;
  const frame = [`may send b ${PROBE_BYTES / 2}`, `sent ${PROBE_BYTES / 2}`];
  expect(log.slice(1)).toEqual(['the step ends', ...frame, ...frame, `measure ${PROBE_BYTES}`]);
  expect(said).toEqual([{ type: 'probed', peer: B, roundTripMs: 4, bytesPerSecond: null }]);
});

test('[WP29] where no link opens, nothing is sent and nothing is said', async () => {
  const { log, said, parts, endStep } = tab(false);
  endStep();
  await probeLink(ASKED, parts);
  expect(log).toEqual(['the step ends', 'openDirect b e3']);
  expect(said).toEqual([]);
});
