import { describe, expect, test } from 'vitest';
import { localNetworkFact, seeLocalNetwork } from './localNetwork.ts';

/** A browser that knows these permissions. */
const browser = (states: Readonly<Record<string, PermissionState>>) => async (name: string) => {
  const state = states[name];
  if (state === undefined) throw new TypeError(`'${name}' is not a valid enum value of type PermissionName`);
  return state;
};

describe('the local network', () => {
  test.each([
    [{ 'local-network-access': 'prompt' }, 'asks'],
    [{ 'local-network': 'denied' }, 'refused'],
    [{ 'local-network-access': 'granted', 'local-network': 'prompt' }, 'open'],
    [{}, 'open'],
  ] as const)('%o: %s', async (states, expected) => {
    expect(await seeLocalNetwork(browser(states))).toBe(expected);
  });

  test('is explained where the browser will ask, or was told no; to nobody who hides its address', () => {
    expect(localNetworkFact('asks', false)?.[1]).toMatch(/^Whether this page may reach devices/);
    expect(localNetworkFact('refused', false)?.[1]).toMatch(/through the server/);
    for (const [state, relayOnly] of [
      ['open', false],
      ['asks', true],
      ['refused', true],
    ] as const)
      expect(localNetworkFact(state, relayOnly)).toBeNull();
  });
});
