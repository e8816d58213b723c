/**
 * What a person decides about this page beside the limits, and how a browser keeps both. Limits are the swarm's affair,
 * preferences this tab's own: nobody else is told of them.
 */
import { z } from 'zod';
import { type Limits, limitsSchema, NO_LIMITS } from '../../../swarm/limits.ts';

const preferencesSchema = z.object({
  /** Rest while the tab is not on screen. */
  onlyVisible: z.boolean(),
  /** Keep the screen, and with it the machine, awake while this tab computes. */
  keepAwake: z.boolean(),
  /** No other donor learns this machine's IP address. From the next time it joins. */
  relayOnly: z.boolean(),
  /** Phones do not compute unless this is set. */
  phone: z.boolean(),
});
export type Preferences = Readonly<z.infer<typeof preferencesSchema>>;

export const DEFAULT_PREFERENCES: Preferences = {
  onlyVisible: false,
  keepAwake: false,
  relayOnly: false,
  phone: false,
};

/** Shares of the GPU's time with a name. */
export const PRESETS = [
  { name: 'Gentle', speed: 0.25, note: 'cool and quiet' },
  { name: 'Balanced', speed: 0.6, note: 'you hardly notice' },
  { name: 'Full', speed: 1, note: 'no limit' },
] as const;

const settingsSchema = z.object({ limits: limitsSchema, preferences: preferencesSchema });
export interface Settings {
  readonly limits: Limits;
  readonly preferences: Preferences;
}

export const settingsText = (settings: Settings): string => JSON.stringify(settings);

/** What an earlier visit kept; anything else is as if there were nothing. */
export function settingsOf(text: string | null): Settings {
  try {
    return settingsSchema.parse(JSON.parse(text ?? ''));
  } catch {
    return { limits: NO_LIMITS, preferences: DEFAULT_PREFERENCES };
  }
}
