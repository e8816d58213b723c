import { expect, test } from 'vitest';
import { NO_LIMITS } from '../../../swarm/limits.ts';
import { DEFAULT_LIMITS, DEFAULT_PREFERENCES, PRESETS, settingsOf, settingsText } from './preferences.ts';

test('settings come back as they were kept; what is none gives those of a first visit', () => {
  const settings = {
    limits: { ...NO_LIMITS, speed: PRESETS[0].speed },
    preferences: { ...DEFAULT_PREFERENCES, relayOnly: true },
  };
  expect(settingsOf(settingsText(settings))).toEqual(settings);
  // The middle preset is chosen for who has chosen nothing.
  expect(DEFAULT_LIMITS).toEqual({ ...NO_LIMITS, speed: PRESETS[1].speed });
  for (const text of [null, '', '{', '{}', '{"limits":{"speed":7}}']) {
    expect(settingsOf(text)).toEqual({ limits: DEFAULT_LIMITS, preferences: DEFAULT_PREFERENCES });
  }
});
