/**
 * What the processes of a site remember of addresses together: a bucket of NATS that all of them follow, so that who has to wait
 * at one waits at every other, in every run, and after a fail-over. Rules NA in SPEC.md.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { type KV, type KvEntry, Kvm } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import { z } from 'zod';
import { KeptLosses, LOSS_KINDS } from '../donors/keptLosses.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** What nothing was added to for so long is forgiven, but for the worst, who are forgiven one conviction. */
const FORGOTTEN_MS = 86_400_000;
/** Some ten thousand addresses; past that no more are remembered until some are forgotten. */
export const BUCKET_BYTES = 4 * 2 ** 20;
/** Before the address's own name. */
const KEY = new RegExp(`^(${LOSS_KINDS.join('|')})\\.([0-9a-f]+)$`);
/** Of no address: what is put there tells NATS's time. Where there is no room for it, all that is known is from just now. */
const NOW_KEY = 'now';

const countSchema = z.number().int().min(0);

export const openAddresses = (nats: NatsConnection, site: string, replicas: number): Promise<KV> =>
  new Kvm(nats).create(`shoal-${site}-addresses`, {
    ...{ ttl: FORGOTTEN_MS, history: 1, max_bytes: BUCKET_BYTES, replicas },
  });

/** Of this process, which hears what others keep as long as its connection lives. */
export function siteLosses(addresses: KV): KeptLosses {
  const kept = new KeptLosses({
    nameOf: (address) => createHash('sha256').update(address).digest('hex').slice(0, 32),
    // While NATS is away, or the bucket full, this process alone remembers it.
    onKept: (kind, name, { count }) => void addresses.put(`${kind}.${name}`, String(count)).catch(() => {}),
  });
  void follow(addresses, kept).catch(() => {}); // NATS is gone for good
  return kept;
}

async function follow(addresses: KV, kept: KeptLosses): Promise<void> {
  const keptMs = await clockOf(addresses);
  for await (const entry of await addresses.watch()) {
    const { key, operation, value } = entry;
    const [, kindName, name] = KEY.exec(key) ?? [];
    const kind = LOSS_KINDS.find((one) => one === kindName);
    const count = countSchema.safeParse(Number(Buffer.from(value).toString()));
    if (operation !== 'PUT' || kind === undefined || name === undefined || !count.success) continue;
    kept.heard(kind, name, { count: count.data, lastMs: keptMs(entry) });
  }
}

/**
 * When an entry was made, by this process's clock. How old those are that were there before is known by NATS's own clock alone:
 * a machine's may be set at any time, and differ from NATS's.
 */
async function clockOf(addresses: KV): Promise<(entry: KvEntry) => number> {
  const revision = await addresses.put(NOW_KEY, '').catch(() => null);
  const hereMs = monotonicMs();
  const now = revision === null ? null : await addresses.get(NOW_KEY);
  return (entry) => {
    if (revision === null || now === null || entry.revision > revision) return monotonicMs();
    return hereMs - Math.max(0, now.created.getTime() - entry.created.getTime());
  };
}
