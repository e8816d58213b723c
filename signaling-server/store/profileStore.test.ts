import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { PeerProfile } from '../../swarm/autoplan/peerProfile.ts';
import { SCRIPTED_ADAPTER } from '../testing/scriptedDonor.ts';
import { openStore } from './openStore.ts';
import { donorHash } from './profileStore.ts';

const profile = (ratio: number): PeerProfile => ({
  layers: [{ samples: 1, forwardSeconds: 0.1, backwardSeconds: 0.2 }],
  memoryBytes: 1e9,
  ratios: [{ op: 'F', samples: 4, ratio }],
});

test('a profile is kept by donor and run, the newest one, over a restart', () => {
  const directory = mkdtempSync(join(tmpdir(), 'shoal-profiles-'));
  try {
    const donor = donorHash('a-random-key-of-a-browser', SCRIPTED_ADAPTER);
    const first = openStore(directory);
    if (!first.ok) throw new Error(first.reason);
    first.value.store.addRun('a', 'hash', '{}', '{}', 0);
    first.value.store.saveProfile('a', donor, profile(1.5), 1);
    first.value.store.saveProfile('a', donor, profile(2), 2);
    first.value.store.close();
    const again = openStore(directory);
    if (!again.ok) throw new Error(again.reason);
    expect(again.value.store.profile('a', donor)).toEqual(profile(2));
    expect(again.value.store.profile('a', donorHash('another-key-of-a-browser', SCRIPTED_ADAPTER))).toBeNull();
    expect(again.value.store.profile('b', donor)).toBeNull();
    again.value.store.close();
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test('another GPU of the same browser is another donor, and nothing of the key is kept but its hash', () => {
  const key = 'a-random-key-of-a-browser';
  const hash = donorHash(key, SCRIPTED_ADAPTER);
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
  expect(donorHash(key, { ...SCRIPTED_ADAPTER, architecture: 'another' })).not.toBe(hash);
});
