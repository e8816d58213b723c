/**
 * The fields that messages are made of, each with its bounds. A bound is what some machine or run could have, so that
 * sums and products of what is heard stay finite.
 */
import { z } from 'zod';
import { peerId } from './base.ts';

export const peer = z.string().min(1).max(64).transform(peerId);
export const count = z.int().min(0).max(0xffffffff);
/** Of a step: the sum over 1,000 donors is still an integer that a double has, and the store takes. */
export const bytes = z
  .int()
  .min(0)
  .max(2 ** 43);
export const seconds = z.number().min(0).max(86_400);
export const instant = z.number().min(-1e12).max(1e12);
export const memory = z
  .int()
  .min(0)
  .max(2 ** 50);
/** Of a detail that one side tells the other; what it quotes may have to be cut. */
export const DETAIL_LENGTH_LIMIT = 2_000;
export const sentence = z.string().max(DETAIL_LENGTH_LIMIT);
export const range = z.tuple([count, count]).readonly();
export const hash = z.string().regex(/^[0-9a-f]{64}$/);
export const block = z.string().regex(/^(embedding|head|layer\.\d{1,6})$/);
/** What a donor may say went wrong with its part. */
export const FAULT_REASONS = ['deviceLost', 'linkLost', 'outOfMemory', 'badFrame', 'internal'] as const;
