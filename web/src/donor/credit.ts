/**
 * What this browser gave, run by run, kept on this computer alone. Pure. Only tokens that the server has counted, those
 * of committed steps, are in it; the server keeps no credit of a browser, so that this record is all there is.
 */
import { z } from 'zod';

const creditSchema = z.object({
  version: z.literal(1),
  runs: z
    .array(
      z.object({
        run: z.string().max(200),
        tokens: z.number().min(0),
        /** Tokens that the run had committed in all, as last seen. */
        runTokens: z.number().min(0),
        firstDay: z.iso.date(),
        lastDay: z.iso.date(),
      }),
    )
    .max(1_000),
});
export type Credit = z.infer<typeof creditSchema>;

export const NO_CREDIT: Credit = { version: 1, runs: [] };

export const creditText = (credit: Credit): string => JSON.stringify(credit, null, 2);

export function creditOf(text: string | null): Credit {
  try {
    return creditSchema.parse(JSON.parse(text ?? ''));
  } catch {
    return NO_CREDIT;
  }
}

export interface Earned {
  readonly run: string;
  /** Since the last time; less than none where the run went back to a checkpoint. */
  readonly tokens: number;
  readonly runTokens: number;
  readonly day: string;
}

/** A run that has less in all than is recorded for this browser has begun anew under its old name. */
export function credited(credit: Credit, { run, tokens, runTokens, day }: Earned): Credit {
  const known = credit.runs.find((entry) => entry.run === run);
  const isSameRun = known !== undefined && known.tokens + tokens <= runTokens;
  const total = Math.max(0, (isSameRun ? known.tokens : 0) + tokens);
  const entry = { run, tokens: total, runTokens, firstDay: isSameRun ? known.firstDay : day, lastDay: day };
  return { ...credit, runs: [...credit.runs.filter((other) => other !== known), entry] };
}

export function share({ tokens, runTokens }: { readonly tokens: number; readonly runTokens: number }): number | null {
  return runTokens > 0 ? Math.min(1, tokens / runTokens) : null;
}
