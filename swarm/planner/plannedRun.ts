/** A run file as `shoal plan` reads it: its islands apart from it, as a planner is asked for them. */
import { type Result, success } from '../base.ts';
import { parseRunFile, type RunFile } from '../run/runFile.ts';
import type { IslandsAsked } from './islandPlan.ts';

export interface PlannedRun {
  /** Without its islands. */
  readonly run: RunFile;
  readonly islands: IslandsAsked | null;
}

export function parsePlannedRun(json: unknown, fileName: string): Result<PlannedRun> {
  const parsed = parseRunFile(json, fileName);
  if (!parsed.ok) return parsed;
  const { islands, ...train } = parsed.value.train;
  const asked = islands && {
    ...{ outer: islands.outer, exchange: islands.exchange, publish: islands.publish },
    rounds:
      islands.count === 'auto'
        ? ({ count: 'auto', roundSeconds: islands.roundSeconds } as const)
        : { count: islands.count, innerSteps: islands.innerSteps },
  };
  return success({ run: { ...parsed.value, train }, islands: asked ?? null });
}
