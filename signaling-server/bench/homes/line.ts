/** A home's line: what it carries, and what packets meet on their way between two homes that have one like it. */
import { type Result, refusal, success } from '../../../swarm/base.ts';

export interface Line {
  readonly uploadBitsPerSecond: number;
  readonly downloadBitsPerSecond: number;
  /** From a home to another and back. To the server and back: half of it. */
  readonly roundTripMs: number;
  /** Each packet is late by up to so much more. */
  readonly jitterMs: number;
  /** The share of packets that do not arrive. */
  readonly loss: number;
}

const UNITS: Readonly<Record<string, number>> = { bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9 };

/** `20Mbit`: bits a second. */
export function parseRate(text: string): Result<number> {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)(k|m|g)?bit$/i.exec(text) ?? [];
  const rate = Number(number) * (UNITS[`${unit.toLowerCase()}bit`] ?? 0);
  return number !== '' && rate >= 1e5 && rate <= 1e10
    ? success(rate)
    : refusal(`expected a rate from 100kbit to 10Gbit such as 20Mbit, not "${text}"`);
}

/** `50ms`: milliseconds. */
export function parseDelay(text: string): Result<number> {
  const [, number = ''] = /^(\d+(?:\.\d+)?)ms$/.exec(text) ?? [];
  return number !== '' && Number(number) <= 2_000
    ? success(Number(number))
    : refusal(`expected a time from 0ms to 2000ms such as 50ms, not "${text}"`);
}

/** `0.005`, or `0.5%`: a share. */
export function parseLoss(text: string): Result<number> {
  const [, number = '', percent] = /^(\d+(?:\.\d+)?)(%)?$/.exec(text) ?? [];
  const share = Number(number) / (percent ? 100 : 1);
  return number !== '' && share <= 0.5
    ? success(share)
    : refusal(`expected a share from 0 to 0.5, or 0.5%, not "${text}"`);
}
