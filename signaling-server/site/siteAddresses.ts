/**
 * What the processes of a site know of addresses together: buckets of NATS that all of them follow. No bucket has an address
 * in it, but a hash of it.
 */

import { Buffer } from 'node:buffer';
import { hash, randomBytes } from 'node:crypto';
import { JetStreamApiError } from '@nats-io/jetstream';
import { type KV, type KvEntry, Kvm } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import { z } from 'zod';
import { KeptLosses, LOSS_KINDS } from '../donors/keptLosses.ts';
import { WrongInvitations } from '../donors/wrongInvitations.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** What nothing was added to for so long is forgiven, but for the worst, who are forgiven one conviction. */
const LOSSES_KEPT_MS = 86_400_000;
/** They count for a minute. */
const INVITATIONS_KEPT_MS = 60_000;
/** Each has some ten thousand entries; past that no more are remembered until some are forgotten. */
const LOSSES_BYTES = 4 * 2 ** 20;
const INVITATIONS_BYTES = 2 * 2 ** 20;
/** What NATS has to have room for. */
export const BUCKETS_BYTES = LOSSES_BYTES + INVITATIONS_BYTES;
/** What JetStream says where what is to be reserved is more than it may have: by its own limit, by the account's. */
const NO_ROOM = new Set([10_047, 10_002]);
const TOO_SMALL = `NATS has too little room: a site reserves ${BUCKETS_BYTES / 2 ** 20} MiB at each of its servers beside what runs take; raise max_file_store in its configuration (or the account’s limit)`;
/** Of no address: what is put there tells NATS's time. Where there is no room for it, all that is known is from just now. */
const NOW_KEY = 'now';

/** Two, so that whoever floods a site with invitations leaves room for what addresses have cost. */
export interface SiteAddresses {
  readonly losses: KV;
  readonly invitations: KV;
}

export async function openAddresses(nats: NatsConnection, site: string, replicas: number): Promise<SiteAddresses> {
  const open = (name: string, ttl: number, bytes: number): Promise<KV> =>
    new Kvm(nats)
      .create(`shoal-${site}-${name}`, { ttl, history: 1, max_bytes: bytes, replicas })
      .catch((error: unknown) => {
        throw error instanceof JetStreamApiError && NO_ROOM.has(error.code) ? new Error(TOO_SMALL) : error;
      });
  return {
    losses: await open('addresses', LOSSES_KEPT_MS, LOSSES_BYTES),
    invitations: await open('invitations', INVITATIONS_KEPT_MS, INVITATIONS_BYTES),
  };
}

/** What an address is remembered by. */
const nameOfAddress = (address: string): string => hash('sha256', address).slice(0, 32);

/** Hears what any process put there, with when that was by this process's clock, as long as its connection lives. */
export async function follow(bucket: KV, heard: (entry: KvEntry, putMs: number) => void): Promise<void> {
  const putMs = await clockOf(bucket);
  for await (const entry of await bucket.watch()) if (entry.operation === 'PUT') heard(entry, putMs(entry));
}

/**
 * When an entry was made, by this process's clock. How old those are that were there before is known by NATS's own clock alone:
 * a machine's may be set at any time, and differ from NATS's.
 */
async function clockOf(bucket: KV): Promise<(entry: KvEntry) => number> {
  const revision = await bucket.put(NOW_KEY, '').catch(() => null);
  const hereMs = monotonicMs();
  const now = revision === null ? null : await bucket.get(NOW_KEY);
  return (entry) => {
    if (revision === null || now === null || entry.revision > revision) return monotonicMs();
    return hereMs - Math.max(0, now.created.getTime() - entry.created.getTime());
  };
}

/** The address's name, and the process that counted. */
const COUNTED_KEY = /^([0-9a-f]+)\.([0-9a-f]+)$/;
const PROCESS_BYTES = 8;

/** How many, and the ms since the address's minute began. */
const countedSchema = z.tuple([z.number().int().min(1), z.number().min(0)]);

/**
 * Wrong invitations at whichever process: an address that asks several, or whose run another process leads by now, may guess
 * no oftener than at one server. Each process has a number of its own for an address, and hears what others count as long as
 * its connection lives.
 */
export function siteInvitations(bucket: KV): WrongInvitations {
  const here = randomBytes(PROCESS_BYTES).toString('hex');
  const wrong = new WrongInvitations({
    nameOf: nameOfAddress,
    onCounted: (name, { count, sinceMs }) => {
      // While NATS is away, or the bucket full, this process counts by itself.
      void bucket.put(`${name}.${here}`, `${count} ${monotonicMs() - sinceMs}`).catch(() => {});
    },
  });
  const following = follow(bucket, ({ key, value }, putMs) => {
    const [, name, process] = COUNTED_KEY.exec(key) ?? [];
    const counted = countedSchema.safeParse(Buffer.from(value).toString().split(' ').map(Number));
    if (name === undefined || process === undefined || process === here || !counted.success) return;
    const [count, agoMs] = counted.data;
    wrong.heard(process, name, { count, sinceMs: putMs - agoMs });
  });
  void following.catch(() => {}); // NATS is gone for good
  return wrong;
}

/** Before the address's own name. */
const LOSS_KEY = new RegExp(`^(${LOSS_KINDS.join('|')})\\.([0-9a-f]+)$`);

const countSchema = z.number().int().min(0);

/**
 * What an address's donors have cost, at whichever process: so who has to wait at one waits at every other, in every run, and
 * after a fail-over. Each process hears what others keep as long as its connection lives.
 */
export function siteLosses(bucket: KV): KeptLosses {
  const kept = new KeptLosses({
    nameOf: nameOfAddress,
    // While NATS is away, or the bucket full, this process alone remembers it.
    onKept: (kind, name, { count }) => void bucket.put(`${kind}.${name}`, String(count)).catch(() => {}),
  });
  const following = follow(bucket, ({ key, value }, lastMs) => {
    const [, kindName, name] = LOSS_KEY.exec(key) ?? [];
    const kind = LOSS_KINDS.find((one) => one === kindName);
    const count = countSchema.safeParse(Number(Buffer.from(value).toString()));
    if (kind !== undefined && name !== undefined && count.success)
      kept.heard(kind, name, { count: count.data, lastMs });
  });
  void following.catch(() => {}); // NATS is gone for good
  return kept;
}
