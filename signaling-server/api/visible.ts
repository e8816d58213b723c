/**
 * What of a run is shown to whom. Of a run that everybody may join everybody may see how it does; of one by invitation
 * what its operator says, and whoever is invited, computes in it or has a session of the dashboard sees the rest.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { REFUSAL_SENTENCES, type RefusalReason } from '../../swarm/messages/refusals.ts';
import { bearer, refuse } from '../http/calls.ts';
import { networkOf } from '../http/networkOf.ts';
import type { ActiveRun } from '../run/run.ts';

/** Each with all before it. nothing: only that there is a run. */
export const PUBLIC_VIEWS = ['nothing', 'status', 'samples'] as const;
export type PublicView = (typeof PUBLIC_VIEWS)[number];

const inviteQuery = z.object({ invite: z.string().max(200).optional() });

export class Visible {
  readonly #run: ActiveRun;
  readonly #view: PublicView;
  readonly #hasSession: (cookie: string | undefined) => boolean;

  constructor(run: ActiveRun, view: PublicView, hasSession: (cookie: string | undefined) => boolean) {
    this.#run = run;
    this.#view = view;
    this.#hasSession = hasSession;
  }

  /** Everybody may read this. */
  isPublic(what: PublicView): boolean {
    return this.#run.network.invitation.isOpen || PUBLIC_VIEWS.indexOf(this.#view) >= PUBLIC_VIEWS.indexOf(what);
  }

  /** Why who calls may not read this; null: it may. */
  refusal(what: PublicView, request: FastifyRequest): RefusalReason | null {
    return this.isPublic(what) ? null : this.#outsider(request);
  }

  /** Why who calls is nobody whom the run knows; null: the run is open, or it is invited, computes or has a session. */
  #outsider(request: FastifyRequest): RefusalReason | null {
    const { invitation } = this.#run.network;
    if (invitation.isOpen) return null;
    if (this.#hasSession(request.headers.cookie) || this.#run.reception.ofToken(bearer(request)) !== null) return null;
    const query = inviteQuery.safeParse(request.query);
    return invitation.problem(query.success ? query.data.invite : undefined, networkOf(request.ip));
  }

  /** As a hook of a call. */
  only(what: PublicView) {
    return answering((request) => this.refusal(what, request));
  }

  /** As a hook of a call that changes something: whatever is public, not by a stranger. */
  invited() {
    return answering((request) => this.#outsider(request));
  }
}

const answering =
  (problemOf: (request: FastifyRequest) => RefusalReason | null) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<undefined> => {
    const reason = problemOf(request);
    if (reason === null) return undefined;
    return refuse(reply, reason === 'notInvited' ? 403 : 429, REFUSAL_SENTENCES[reason]);
  };
