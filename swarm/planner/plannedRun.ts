/** A run file as `shoal plan` reads it: its islands apart from it, as a planner is asked for them. */
import { type Result, success } from '../base.ts';
import { type Islands, parseRunFile, type RunFile } from '../run/runFile.ts';
import type { IslandsAsked } from './islandPlan.ts';

interface PlannedRun {
  /** Without its islands. */
  readonly run: RunFile;
  readonly islands: IslandsAsked | null;
}

export function parsePlannedRun(json: unknown, fileName: string): Result<PlannedRun> {
  const parsed = parseRunFile(json, fileName);
  if (!parsed.ok) return parsed;
  const { islands, ...train } = parsed.value.train;
  return success({ run: { ...parsed.value, train }, islands: islands ? islandsAsked(islands) : null });
}

export const islandsAsked = (islands: Islands): IslandsAsked => ({
  ...{ outer: islands.outer, exchange: islands.exchange, publish: islands.publish, overlap: islands.overlap },
  rounds:
    islands.count === 'auto'
      ? { count: 'auto', roundSeconds: islands.roundSeconds }
      : { count: islands.count, innerSteps: islands.innerSteps },
});
