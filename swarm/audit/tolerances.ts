/**
 * How far an honest donor's numbers may be from float64's. The largest differences that were seen stand in HONEST, with their
 * date; a donor is convicted only above MARGIN of them. Measured over the tiny models of all families in two stages, random
 * and trained weights, odd sizes, padded examples and every wire (web/src/gpu/audit.gpu.test.ts prints them), with kernels
 * of both families on SwiftShader.
 */
import type { Compute } from '../precision.ts';
import type { AuditedTensor } from './auditCase.ts';

/** 2026-11-30. */
const HONEST: Readonly<Record<Compute, Readonly<Record<AuditedTensor['what'], number>>>> = {
  f32: { output: 1e-6, 'input gradient': 1e-6, loss: 1e-6, 'gradient sum': 1e-6 },
  f16: { output: 1e-3, 'input gradient': 1e-3, loss: 1e-3, 'gradient sum': 1e-3 },
};
const MARGIN = 5;

export const convictionBound = (compute: Compute, what: AuditedTensor['what']): number =>
  MARGIN * HONEST[compute][what];

/** By which share a number that is kept is off at most. */
export const ROUNDING_UNIT: Readonly<Record<Compute, number>> = { f32: 2 ** -23, f16: 2 ** -11 };
/** What rounds in a stage, over what one nudge of its inputs and weights moves. */
export const ROUNDINGS = 16;
