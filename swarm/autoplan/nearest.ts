/**
 * A schedule that was wished for needs so many donors, layers and samples; where those there cannot have it the run goes
 * on with the nearest that can be had: fewer pairs or chunks, one donor fewer, then 1f1b. The epoch's reason says so.
 */
import type { Plan, ScheduleName, WarmUp } from '../plan/plan.ts';
import type { SplitOptions } from '../planner/equalSplit.ts';
import { DEFAULT_CHUNKS, DEFAULT_PAIRS } from '../planner/ownedSplit.ts';

interface Nearest {
  readonly options: SplitOptions;
  /** Donors that stay spare for it. */
  readonly fewer: 0 | 1;
  /** What it is, in words; null: what was wished for. */
  readonly text: string | null;
}

/** What to try with so many donors, one after the other. The last one can always be had. */
export function nearestTo(options: SplitOptions, donors: number): readonly Nearest[] {
  const wished: Nearest = { options, fewer: 0, text: null };
  const { schedule, chunks = DEFAULT_CHUNKS, pairs = DEFAULT_PAIRS, stages: _, ...others } = options;
  const last: Nearest = { options: { ...others, schedule: '1f1b' }, fewer: 0, text: '1f1b' };
  switch (schedule) {
    case 'interleaved':
    case 'breadth-first':
      return [
        wished,
        ...below(chunks).map(
          (fewer): Nearest => ({ ...wished, options: { ...others, schedule, chunks: fewer }, text: `chunks ${fewer}` }),
        ),
        last,
      ];
    case 'chimera': {
      const fewer = donors % 2 === 1 && donors > 2 ? 1 : 0;
      const one = fewer === 1 ? 'one donor fewer' : null;
      return [
        { ...wished, fewer, text: one },
        ...below(pairs).map(
          (some): Nearest => ({
            options: { ...others, schedule, pairs: some },
            fewer,
            text: [one, `pairs ${some}`].filter((part) => part !== null).join(', '),
          }),
        ),
        last,
      ];
    }
    default:
      return [wished];
  }
}

/** What to make for other donors than a plan was made for. */
export function optionsOf({ schedule, warmup, stages }: Plan): {
  readonly schedule: ScheduleName;
  readonly chunks?: number;
  readonly pairs?: number;
  readonly warmup?: WarmUp;
} {
  const warm = warmup === undefined ? {} : { warmup };
  const donors = new Set(stages.flatMap(({ members }) => members.map(({ peer }) => peer))).size;
  if (schedule === 'interleaved' || schedule === 'breadth-first')
    return { schedule, chunks: Math.max(1, Math.floor(stages.length / donors)), ...warm };
  if (schedule === 'chimera') return { schedule, pairs: (stages[0]?.members.length ?? 2) / 2, ...warm };
  return { schedule, ...warm };
}

const below = (count: number): number[] => Array.from({ length: count - 1 }, (_, index) => count - 1 - index);
