/** The text that a person can hand on when something is wrong. Pure. Whatever looks like an IP address is taken out. */
import { bytesText } from '../../../swarm/quantityText.ts';
import { percentText, shortId } from '../page/format.ts';
import type { DonorState } from './state.ts';

/** A browser's version looks like one, too, but stands behind a slash. */
const ADDRESSES = /(?<![\w./])\d{1,3}(\.\d{1,3}){3}\b|\b(?:[\da-f]{0,4}:){3,7}[\da-f]{0,4}\b/gi;

export const withoutAddresses = (text: string): string => text.replace(ADDRESSES, '[address]');

/** For a message to whoever runs the server, or to us. */
export function diagnostics(state: DonorState, userAgent: string, nowMs: number): string {
  const { machine, adapter, limits, preferences, status, snapshot, links } = state;
  const gpu = adapter ?? (machine.gpu.kind === 'found' ? machine.gpu.adapter : null);
  const lines = [
    `Shoal donor page, ${new Date(nowMs).toISOString()}`,
    `Browser: ${userAgent}`,
    `GPU: ${gpu ? JSON.stringify({ ...gpu, browser: undefined }) : machine.gpu.kind}`,
    `State: ${JSON.stringify(state.phase)}, pending ${state.pending}, rest ${JSON.stringify(state.rest)}`,
    `Limits: ${JSON.stringify(limits)}; ${JSON.stringify(preferences)}`,
    `Conditions: ${JSON.stringify(state.surroundings)}; today ${JSON.stringify(state.today)}; takes ${percentText(state.eased)} of its share`,
    `Run: ${snapshot ? `${snapshot.phase}, step ${snapshot.committedSteps} of ${snapshot.steps}, epoch ${snapshot.epoch}, ${snapshot.donors.length + (snapshot.others ?? 0)} donors` : 'not known'}`,
    ...(status
      ? [
          `Work: ${status.activity}, step ${status.step}, stages ${JSON.stringify(status.stages)}, ${bytesText(status.gpuMemoryBytes)} of GPU memory, busy ${percentText(status.busyShare)}, ${status.bytesSent} bytes sent, ${status.bytesReceived} received, ${status.droppedFrames} frames dropped`,
        ]
      : []),
    ...links.map(
      ({ peer, route, roundTripMs, bytesPerSecond }) =>
        `Link to ${shortId(peer)}: ${route}, ${roundTripMs ?? '?'} ms, ${bytesPerSecond ?? '?'} bytes a second`,
    ),
    'Log:',
    ...state.log.map(({ atMs, text }) => `${new Date(atMs).toISOString()} ${text}`),
  ];
  return withoutAddresses(lines.join('\n'));
}
