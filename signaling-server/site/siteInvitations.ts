/**
 * Wrong invitations at whichever process: an address that asks several, or whose run another process leads by now, may guess
 * no oftener than at one server. Each process has a number of its own for an address. Rules NA in SPEC.md.
 */
import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { KV } from '@nats-io/kv';
import { z } from 'zod';
import { WrongInvitations } from '../donors/wrongInvitations.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { follow, nameOfAddress } from './siteAddresses.ts';

/** The address's name, and the process that counted. */
const KEY = /^([0-9a-f]+)\.([0-9a-f]+)$/;
const PROCESS_BYTES = 8;

/** How many, and the ms since the address's minute began. */
const countedSchema = z.tuple([z.number().int().min(1), z.number().min(0)]);

/** Of this process, which hears what others count as long as its connection lives. */
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
    const [, name, process] = KEY.exec(key) ?? [];
    const counted = countedSchema.safeParse(Buffer.from(value).toString().split(' ').map(Number));
    if (name === undefined || process === undefined || process === here || !counted.success) return;
    const [count, agoMs] = counted.data;
    wrong.heard(process, name, { count, sinceMs: putMs - agoMs });
  });
  void following.catch(() => {}); // NATS is gone for good
  return wrong;
}
