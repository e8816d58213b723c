/**
 * Who asks a model, whether they may, and how much they may ask for: by key; or by address where anyone may, and from the
 * page `/talk`.
 */
import type { FastifyRequest } from 'fastify';
import type { ApiMode } from '../../swarm/messages/apiKeys.ts';
import { AddressLimit } from '../http/addressLimit.ts';
import { bearer } from '../http/calls.ts';
import { networkOf } from '../http/networkOf.ts';
import { isSameSecret } from '../http/secret.ts';
import { type ApiError, invalid, tooMany } from './apiErrors.ts';
import type { ApiKeys } from './apiKeys.ts';
import { HourlyTokens } from './hourlyTokens.ts';

/** Of an address, where anyone may ask. */
const OPEN_TOKENS_AN_HOUR = 50_000;
/** Calls of one caller that have no answer yet. */
const CALLS_AT_ONCE = 16;

interface Caller {
  readonly who: string;
  /** Tokens an hour; null: the server's own command, which knows what it asks for. */
  readonly limit: number | null;
  /** The only run that it may ask; null: any of the data directory. */
  readonly onlyRun: string | null;
}

interface CallersOptions {
  readonly mode: ApiMode;
  readonly keys: ApiKeys;
  /** Of who opened this server. */
  readonly ownKey: string;
}

/** What a call was let in with; call it when it is over. */
export interface LetIn extends Caller {
  readonly leave: () => void;
}

const OFF = invalid(null, 'nobody may ask this server’s models', 'api_off', 403);
const anyoneAt = (ip: string): Caller => ({
  ...{ who: `address ${networkOf(ip)}`, limit: OPEN_TOKENS_AN_HOUR, onlyRun: null },
});

export class ApiCallers {
  readonly #options: CallersOptions;
  readonly #tokens = new HourlyTokens();
  readonly #calls = new AddressLimit(CALLS_AT_ONCE);

  constructor(options: CallersOptions) {
    this.#options = options;
  }

  get mode(): ApiMode {
    return this.#options.mode;
  }

  letIn(request: FastifyRequest): LetIn | ApiError {
    const caller = this.#caller(request);
    return 'status' in caller ? caller : this.#entered(caller);
  }

  /** From the page, which may ask this run, and has no key. */
  letInFromPage({ ip }: FastifyRequest, run: string): LetIn | ApiError {
    return this.mode === 'off' ? OFF : this.#entered({ ...anyoneAt(ip), onlyRun: run });
  }

  #entered(caller: Caller): LetIn | ApiError {
    const leave = caller.limit === null ? () => {} : this.#calls.enter(caller.who);
    if (leave === null)
      return tooMany('requests', `${CALLS_AT_ONCE} of your calls are being answered: wait for one`, 1);
    return { ...caller, leave };
  }

  /** So many tokens of prompt and answer together. Call the answer with what it came to. */
  take({ who, limit }: Caller, tokens: number): ((used: number) => void) | ApiError {
    if (limit === null) return () => {};
    const taken = this.#tokens.take(who, tokens, limit);
    if (typeof taken !== 'number') return taken.settle;
    const most = `prompt and answer may have ${tokens} tokens, and the limit is ${limit} an hour`;
    return tooMany('tokens', `${most}: wait, or ask for fewer (max_tokens)`, taken);
  }

  #caller(request: FastifyRequest): Caller | ApiError {
    const { mode, keys, ownKey } = this.#options;
    const said = bearer(request);
    if (said !== '' && isSameSecret(said, ownKey)) return { who: 'own', limit: null, onlyRun: null };
    if (mode === 'off') return OFF;
    const key = keys.of(said);
    if (key !== null) return { who: `key ${key.id}`, limit: key.tokensAnHour, onlyRun: null };
    if (mode === 'open') return anyoneAt(request.ip);
    return said === ''
      ? invalid(
          null,
          'this call needs a key: Authorization: Bearer KEY; an operator makes one on the dashboard',
          null,
          401,
        )
      : invalid(null, 'this key is unknown here, or was revoked', 'invalid_api_key', 401);
  }
}
