/** What the server tells an operator's page, and what the page may ask of it. Rules WP in SPEC.md. */
import { z } from 'zod';
import { type Result, refusal, success } from './base.ts';
import { snapshotSchema } from './messages.ts';

export const OPERATOR_COMMANDS = ['start', 'pause', 'resume', 'stop'] as const;
export type OperatorCommand = (typeof OPERATOR_COMMANDS)[number];

/** A committed step, as far as it is drawn. */
const stepSchema = z.object({ step: z.int().min(0), loss: z.number(), tokens: z.number(), seconds: z.number() });
export type WatchedStep = z.infer<typeof stepSchema>;

const watchSchema = z.object({
  snapshot: snapshotSchema,
  /** The newest steps, oldest first: at least those that were not sent before. */
  recent: z.array(stepSchema),
});
export type WatchMessage = z.infer<typeof watchSchema>;

export function decodeWatchMessage(text: string): Result<WatchMessage> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return refusal('the message is no JSON');
  }
  const parsed = watchSchema.safeParse(json);
  return parsed.success ? success(parsed.data) : refusal(z.prettifyError(parsed.error));
}
