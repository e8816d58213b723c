/**
 * What happened on this page, in words and in order, and the text that a person can hand on when something is wrong.
 * Pure. No IP address leaves in it: whatever looks like one is taken out.
 */
import { bytesText, percentText } from '../page/format.ts';
import { headlineOf } from './sentences.ts';
import type { DonorState } from './state.ts';

export interface LogEntry {
  readonly atMs: number;
  readonly text: string;
}

const ENTRIES_KEPT = 100;
/** A browser's version looks like one, too, but stands behind a slash. */
const ADDRESSES = /(?<![\w./])\d{1,3}(\.\d{1,3}){3}\b|\b(?:[\da-f]{0,4}:){3,7}[\da-f]{0,4}\b/gi;

export const withoutAddresses = (text: string): string => text.replace(ADDRESSES, '[address]');

/** A change of the headline's word is news; its sentence changes with every step. */
export function logged(before: DonorState, after: DonorState, atMs: number): DonorState {
  const { word, sentence } = headlineOf(after);
  if (word === headlineOf(before).word) return after;
  const detail = after.phase.kind === 'failed' && after.phase.detail ? ` (${after.phase.detail})` : '';
  const entry = { atMs, text: `${word}: ${sentence}${detail}` };
  return { ...after, log: [...after.log, entry].slice(-ENTRIES_KEPT) };
}

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
    `Run: ${snapshot ? `${snapshot.phase}, step ${snapshot.committedSteps} of ${snapshot.steps}, epoch ${snapshot.epoch}, ${snapshot.donors.length} donors` : 'not known'}`,
    ...(status
      ? [
          `Work: ${status.activity}, step ${status.step}, stages ${JSON.stringify(status.stages)}, ${bytesText(status.gpuMemoryBytes)} of GPU memory, busy ${percentText(status.busyShare)}, ${status.bytesSent} bytes sent, ${status.bytesReceived} received, ${status.droppedFrames} frames dropped`,
        ]
      : []),
    ...links.map(
      ({ peer, route, roundTripMs, bytesPerSecond }) =>
        `Link to ${peer.slice(0, 6)}: ${route}, ${roundTripMs ?? '?'} ms, ${bytesPerSecond ?? '?'} bytes a second`,
    ),
    'Log:',
    ...state.log.map(({ atMs, text }) => `${new Date(atMs).toISOString()} ${text}`),
  ];
  return withoutAddresses(lines.join('\n'));
}
