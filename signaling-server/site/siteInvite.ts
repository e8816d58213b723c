/**
 * Whether a site's runs are by invitation, and by which, is the site's: it keeps a digest of what the first process said, and
 * one that says otherwise leads none of its runs. So no fail-over lets in whom an operator shut out.
 */
import { randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { Log } from '../monitoring/log.ts';
import type { Store } from '../store/store.ts';

/** Kept in place of a digest: everybody may come. */
const OPEN = 'open';
const SALT_BYTES = 16;
const DIGEST_BYTES = 32;

interface InviteOptions {
  readonly store: Pick<Store, 'setting' | 'saveSetting'>;
  readonly site: string;
  /** What this process was started with; undefined: nothing. */
  readonly invite: string | undefined;
  /** It was also told to let in everybody where that was by invitation. */
  readonly isOpening: boolean;
  readonly log: Log;
}

export class SiteInvite {
  readonly #options: InviteOptions;
  #hasFollowed = false;
  #hasSaid = false;
  /** What was kept when it was compared last: that takes some 50 ms, by intent. */
  #compared: { readonly kept: string; readonly isOwn: boolean } | null = null;

  constructor(options: InviteOptions) {
    this.#options = options;
  }

  /** Why this process may not be one of the site; null: it may. `isLed`: another one leads it. */
  startProblem(isLed: boolean): string | null {
    return this.#problem(!isLed);
  }

  /** Another process leads: what it has said since is this one's too. */
  followed(): void {
    this.#hasFollowed = true;
    const problem = this.#problem(false);
    if (problem === null || this.#hasSaid) return;
    this.#hasSaid = true;
    this.#options.log('warn', `this process can lead no run: ${problem}`);
  }

  /** This process is about to open the site's first run. Where it is, and always was, the only one, its word is the site's. */
  lead(isAlone: boolean): Result<null> {
    const { store, invite, log } = this.#options;
    const problem = this.#problem(isAlone && !this.#hasFollowed);
    if (problem !== null) return refusal(problem);
    const kept = store.setting('invite');
    if (kept !== null && this.#isOwn(kept)) return success(null);
    store.saveSetting('invite', invite === undefined ? OPEN : digestOf(invite, randomBytes(SALT_BYTES)));
    const who = invite === undefined ? 'open to everyone' : 'by the invitation of this server’s --invite';
    if (kept !== null) log('warn', `the runs of this site are ${who} from now on`);
    return success(null);
  }

  /** It is about to open one that trains beside that. */
  leadBeside(): Result<null> {
    const problem = this.#problem(false);
    if (problem !== null) return refusal(problem);
    return this.#options.store.setting('invite') === null
      ? refusal('whether the runs of this site are by invitation is not known yet: whoever leads its first run says so')
      : success(null);
  }

  #isOwn(kept: string): boolean {
    if (this.#compared?.kept !== kept) this.#compared = { kept, isOwn: isKept(kept, this.#options.invite) };
    return this.#compared.isOwn;
  }

  #problem(mayChange: boolean): string | null {
    const { store, site, invite, isOpening } = this.#options;
    const kept = store.setting('invite');
    if (kept === null || this.#isOwn(kept)) return null;
    if (mayChange && (invite !== undefined || isOpening)) return null;
    if (invite === undefined)
      return `the runs of the site ${site} are by invitation: start this server with the --invite of the others, or, to open the runs to everyone, stop all servers and start them with --open-to-all`;
    if (kept === OPEN)
      return `the runs of the site ${site} are open to everyone: start this server without --invite, or, to change that, stop all servers and start them with it`;
    return `the runs of the site ${site} are by another invitation: start this server with the --invite of the others, or, to change it, stop all servers first`;
  }
}

/** A word that a person chose is not to be guessed from it. */
const digestOf = (invite: string, salt: Buffer): string =>
  `${salt.toString('hex')}.${scryptSync(invite, salt, DIGEST_BYTES).toString('hex')}`;

function isKept(kept: string, invite: string | undefined): boolean {
  if (kept === OPEN || invite === undefined) return kept === OPEN && invite === undefined;
  const [salt = ''] = kept.split('.');
  const own = Buffer.from(digestOf(invite, Buffer.from(salt, 'hex')));
  const other = Buffer.from(kept);
  return own.length === other.length && timingSafeEqual(own, other);
}
