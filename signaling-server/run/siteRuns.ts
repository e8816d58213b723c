/** What a server knows of the other runs of its site, which other servers may lead. A server that is alone has none of it. */
import type { Result } from '../../swarm/base.ts';
import type { NamedCredit } from '../../swarm/messages/leaderboard.ts';
import type { RunWant } from '../../swarm/messages/neededMost.ts';
import type { KeptLosses } from '../donors/keptLosses.ts';
import type { WrongInvitations } from '../donors/wrongInvitations.ts';

export interface SiteRuns {
  /** This server's run trains beside the one that the site began with, whose server has what is the site's. */
  readonly isBeside: boolean;
  /** What all processes of the site remember of addresses. */
  readonly losses: KeptLosses;
  readonly wrongInvitations: WrongInvitations;
  /** Every token that donors get here begins with it: any process of the site knows by it which run a call is for. */
  readonly tokenPrefix: string;
  /** Every active run, as its server said last. */
  wants(): readonly RunWant[];
  /** Who gave how much to the active runs, and what all gave. */
  credit(): { readonly credits: readonly NamedCredit[]; readonly tokens: number };
  /** Another one when that may be another. */
  creditVersion(): string;
  /** Has a run trained beside the others from now on. */
  startBeside(run: string): Result<null>;
}
