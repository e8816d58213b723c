/**
 * What an address's donors have cost, at whichever process: so who has to wait at one waits at every other, in every run, and
 * after a fail-over. Rules NA in SPEC.md.
 */
import { Buffer } from 'node:buffer';
import type { KV } from '@nats-io/kv';
import { z } from 'zod';
import { KeptLosses, LOSS_KINDS } from '../donors/keptLosses.ts';
import { follow, nameOfAddress } from './siteAddresses.ts';

/** Before the address's own name. */
const KEY = new RegExp(`^(${LOSS_KINDS.join('|')})\\.([0-9a-f]+)$`);

const countSchema = z.number().int().min(0);

/** Of this process, which hears what others keep as long as its connection lives. */
export function siteLosses(bucket: KV): KeptLosses {
  const kept = new KeptLosses({
    nameOf: nameOfAddress,
    // While NATS is away, or the bucket full, this process alone remembers it.
    onKept: (kind, name, { count }) => void bucket.put(`${kind}.${name}`, String(count)).catch(() => {}),
  });
  const following = follow(bucket, ({ key, value }, lastMs) => {
    const [, kindName, name] = KEY.exec(key) ?? [];
    const kind = LOSS_KINDS.find((one) => one === kindName);
    const count = countSchema.safeParse(Number(Buffer.from(value).toString()));
    if (kind !== undefined && name !== undefined && count.success)
      kept.heard(kind, name, { count: count.data, lastMs });
  });
  void following.catch(() => {}); // NATS is gone for good
  return kept;
}
