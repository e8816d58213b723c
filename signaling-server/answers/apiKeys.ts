/**
 * Who may ask a model: keys that operators make and revoke, kept as hashes, so that nobody reads one out of the store. A key is shown
 * once, when it is made.
 */
import { hash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { type ApiKeyDraft, apiKeySchema } from '../../swarm/messages/apiKeys.ts';
import { wallMs } from '../monitoring/clock.ts';
import type { Store } from '../store/store.ts';

const MOST_KEYS = 100;
/** What it is, to whoever finds one, and to tools that look for secrets in texts. */
const PREFIX = 'sk-shoal-';

const keptSchema = z.array(apiKeySchema.extend({ hash: z.string() }));
type KeptKey = z.infer<typeof keptSchema>[number];

const hashOf = (key: string): string => hash('sha256', `api key ${key}`);

export class ApiKeys {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** In the order made; none where that was by a version that wrote them otherwise. */
  list(): readonly KeptKey[] {
    return keptSchema.safeParse(JSON.parse(this.#store.setting('apiKeys') ?? '[]')).data ?? [];
  }

  /** The key itself, for this once. */
  make({ name, tokensAnHour }: ApiKeyDraft): Result<{ readonly key: string }> {
    const keys = this.list();
    if (keys.length >= MOST_KEYS) return refusal(`there are ${keys.length} keys already: revoke one first`);
    const key = PREFIX + randomBytes(32).toString('base64url');
    const made = { id: randomBytes(6).toString('hex'), name, tokensAnHour, madeAtMs: wallMs(), hash: hashOf(key) };
    this.#save([...keys, made]);
    return success({ key });
  }

  revoke(id: string): Result<null> {
    const keys = this.list();
    const rest = keys.filter((key) => key.id !== id);
    if (rest.length === keys.length) return refusal('this key is revoked already');
    this.#save(rest);
    return success(null);
  }

  /** Null: it is none of them, or was revoked. */
  of(key: string): KeptKey | null {
    if (!key.startsWith(PREFIX)) return null;
    const wanted = hashOf(key);
    return this.list().find((each) => each.hash === wanted) ?? null;
  }

  #save(keys: readonly KeptKey[]): void {
    this.#store.saveSetting('apiKeys', JSON.stringify(keys));
  }
}
