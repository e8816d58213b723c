/**
 * What a person decides about this page beside the limits, and how a browser keeps both. Limits are the swarm's affair,
 * preferences this tab's own: nobody else is told of them.
 */
import { z } from 'zod';
import { type Limits, limitsSchema, NO_LIMITS } from '../../../swarm/limits.ts';

/** Minutes since midnight, by this computer's clock; an end before its start is on the next day. */
const hoursSchema = z.object({ from: z.int().min(0).max(1_439), to: z.int().min(0).max(1_439) });
export type Hours = Readonly<z.infer<typeof hoursSchema>>;

/** Below it a single step may not fit. */
export const LEAST_DAY_BYTES = 1_000_000;
const dayBytes = z.number().min(LEAST_DAY_BYTES).nullable().default(null);

// What came after the first version has a default: what was kept before it is read still.
const preferencesSchema = z.object({
  /** Rest while the tab is not on screen. */
  onlyVisible: z.boolean(),
  /** Keep the screen, and with it the machine, awake while this tab computes. */
  keepAwake: z.boolean(),
  /** No other donor learns this machine's IP address. From the next time it joins. */
  relayOnly: z.boolean(),
  /** Phones do not compute unless this is set. */
  phone: z.boolean(),
  /** Rest while the computer runs on its battery. */
  onlyMains: z.boolean().default(false),
  /** Rest while the person uses the computer. */
  onlyIdle: z.boolean().default(false),
  /** Compute between these hours alone. */
  hours: hoursSchema.nullable().default(null),
  uploadBytesPerDay: dayBytes,
  downloadBytesPerDay: dayBytes,
  /** Take less of the GPU while this page's own frames come late. */
  smooth: z.boolean().default(true),
  /** Answer questions to the model where training leaves the GPU idle; never on battery. */
  answers: z.boolean().default(true),
});
export type Preferences = Readonly<z.infer<typeof preferencesSchema>>;

export const DEFAULT_PREFERENCES: Preferences = {
  onlyVisible: false,
  keepAwake: false,
  relayOnly: false,
  phone: false,
  onlyMains: false,
  onlyIdle: false,
  hours: null,
  uploadBytesPerDay: null,
  downloadBytesPerDay: null,
  smooth: true,
  answers: true,
};

/** Shares of the GPU's time with a name. */
export const PRESETS = [
  { name: 'Gentle', speed: 0.25, note: 'cool and quiet' },
  { name: 'Balanced', speed: 0.6, note: 'you’ll hardly notice' },
  { name: 'Full', speed: 1, note: 'all it has, and warmer' },
] as const;

/** What a newcomer gives: most of it, and the computer stays pleasant. */
export const DEFAULT_LIMITS: Limits = { ...NO_LIMITS, speed: 0.6 };

const settingsSchema = z.object({ limits: limitsSchema, preferences: preferencesSchema });
export interface Settings {
  readonly limits: Limits;
  readonly preferences: Preferences;
}

export const preferencesOf = (wanted: unknown): Preferences | null => preferencesSchema.safeParse(wanted).data ?? null;

export const settingsText = (settings: Settings): string => JSON.stringify(settings);

/** What an earlier visit kept; anything else is as if there were nothing. */
export function settingsOf(text: string | null): Settings {
  try {
    return settingsSchema.parse(JSON.parse(text ?? ''));
  } catch {
    return { limits: DEFAULT_LIMITS, preferences: DEFAULT_PREFERENCES };
  }
}
