/** Leases over a bucket of keys in memory, on the test's clock. */
import type { KV } from '@nats-io/kv';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { FIRST_KEY, Lease, type LeaseHost } from './lease.ts';

/** What a lease asks of a bucket; keys do not run out. */
function bucket(): KV {
  const entries = new Map<string, { revision: number; value: string }>();
  let revision = 0;
  const put = (key: string, value: string): number => {
    revision += 1;
    entries.set(key, { revision, value });
    return revision;
  };
  const conflict = (): Error => new Error('wrong last sequence');
  const kv: Pick<KV, 'get' | 'create' | 'update' | 'delete'> = {
    get: async (key) => {
      const entry = entries.get(key);
      if (entry === undefined) return null;
      return { ...entry, operation: 'PUT', json: () => JSON.parse(entry.value) } as unknown as Awaited<
        ReturnType<KV['get']>
      >;
    },
    create: async (key, value) => {
      if (entries.has(key)) throw conflict();
      return put(key, String(value));
    },
    update: async (key, value, version) => {
      if (entries.get(key)?.revision !== version) throw conflict();
      return put(key, String(value));
    },
    delete: async (key) => {
      entries.delete(key);
    },
  };
  return kv as KV;
}

const leases: Lease[] = [];
beforeEach(() => void vi.useFakeTimers());
afterEach(async () => {
  for (const lease of leases.splice(0)) await lease.close();
  vi.useRealTimers();
});

function open(kv: KV, process: string, restraintMs: number): Lease {
  const host: LeaseHost = { won() {}, lost() {}, leads() {}, want: () => null, restraintMs: () => restraintMs };
  const lease = new Lease(kv, FIRST_KEY, process, host);
  leases.push(lease);
  lease.begin();
  return lease;
}

it('a free key is left for a while to those who lead fewer runs, and taken where nobody else takes it', async () => {
  const kv = bucket();
  const busy = open(kv, 'busy', 1_500);
  await vi.advanceTimersByTimeAsync(900);
  const idle = open(kv, 'idle', 0);
  await vi.advanceTimersByTimeAsync(100);
  expect([busy.isHeld, idle.isHeld]).toEqual([false, true]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(busy.isHeld).toBe(false);
  // Free again: the time counts anew.
  await idle.close();
  await vi.advanceTimersByTimeAsync(1_400);
  expect(busy.isHeld).toBe(false);
  await vi.advanceTimersByTimeAsync(1_200);
  expect(busy.isHeld).toBe(true);
});

it("a key held by what is no name of a process is nobody's: none is told to go there", async () => {
  for (const process of ['a b', '*', '>', 'a.b', '', 'x'.repeat(70_000)]) {
    const kv = bucket();
    await kv.create(FIRST_KEY, JSON.stringify({ process, isReady: true, want: null }));
    const led: (string | null)[] = [];
    const leads = (process: string | null): void => void led.push(process);
    const lease = new Lease(kv, FIRST_KEY, 'me', {
      ...{ won() {}, lost() {}, leads, want: () => null, restraintMs: () => 0 },
    });
    leases.push(lease);
    lease.begin();
    await vi.advanceTimersByTimeAsync(1_100);
    expect(led.length).toBeGreaterThan(0);
    expect(led.every((process) => process === null)).toBe(true);
    await kv.delete(FIRST_KEY); // as when it ran out
    await vi.advanceTimersByTimeAsync(600);
    expect(lease.isHeld).toBe(true);
  }
});
