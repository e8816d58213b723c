/**
 * What a donor's page asks for beside its socket: what the run is, what its newest saved state writes, who gave how
 * much, and, for who wants one, a name of its own. Nobody logs in: who has the key that its browser made is that donor.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { given, peerId, totalOf } from '../../swarm/base.ts';
import type { About } from '../../swarm/messages/about.ts';
import { leaderboard, memberNameSchema, ranking } from '../../swarm/messages/leaderboard.ts';
import { nameProblem, tidyName } from '../../swarm/messages/publicName.ts';
import { stepTargets } from '../../swarm/run/data.ts';
import type { OwnAnswers } from '../answers/processorAnswerer.ts';
import { resumeKeys } from '../donors/donorIds.ts';
import { type Access, isSameOrigin } from '../http/access.ts';
import { Arrivals } from '../http/arrivals.ts';
import { bearer, perMinute, problem, refuse } from '../http/calls.ts';
import { keptWhile } from '../http/keptWhile.ts';
import { networkOf } from '../http/networkOf.ts';
import { isSameSecret } from '../http/secret.ts';
import { wallMs } from '../monitoring/clock.ts';
import { addressKey } from '../operator/controls.ts';
import { sendExport } from '../operator/export.ts';
import type { ActiveRun } from '../run/run.ts';
import type { SiteRuns } from '../run/siteRuns.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { memberId } from '../store/memberStore.ts';
import { cardOf } from '../store/runCard.ts';
import { PublicSamples } from './publicSample.ts';
import { Today } from './today.ts';
import type { Visible } from './visible.ts';

const READS_PER_MINUTE = 120;
/** Each may cost the processor some seconds, once a checkpoint. */
const SAMPLES_PER_MINUTE = 12;
const CHANGES_PER_MINUTE = 20;
/** Names that all addresses together choose, but for donors at work: each is written down. */
const NAMES = { atOnce: 100, perSecond: 5 };
/** Each writes the whole model once. */
const DOWNLOADS_PER_MINUTE = 3;
/** Each takes room on the disk for the whole model until it is read. */
const DOWNLOADS_AT_ONCE = 4;

const keySchema = z.string().regex(/^[\w-]{16,64}$/);

/** The hash of the key that the call carries. */
function memberOf(request: FastifyRequest): string | null {
  const key = keySchema.safeParse(bearer(request));
  return key.success ? memberId(key.data) : null;
}

const helperQuery = z.object({ peer: z.string().min(1).max(40) });

/** What all of these calls are about. */
interface Members {
  readonly run: ActiveRun;
  readonly data: DataDirectory;
  readonly access: Access;
  readonly visible: Visible;
  readonly own: OwnAnswers;
  readonly site?: SiteRuns | undefined;
}

export function addMemberApi(app: FastifyInstance, members: Members): void {
  addRunCalls(app, members);
  addDownload(app, members);
  addNames(app, members);
}

/** What the run is, what it writes, and who gave how much. */
function addRunCalls(app: FastifyInstance, { run, data, visible, own, site }: Members): void {
  const { store } = data;
  const samples = new PublicSamples(run, data, own);
  const targets = stepTargets(run.facts.data, run.facts.train);
  const ofRun = () => ({ credits: store.memberCredit(run.name), tokens: run.committedSteps * targets });
  const ranked = keptWhile(
    () => site?.creditVersion() ?? store.version(),
    () => {
      const { credits, tokens } = site?.credit() ?? ofRun();
      return { ranking: ranking(credits), rows: credits.length, tokens };
    },
    ({ rows }) => rows,
  );
  const today = new Today(run, store, () => new Date(wallMs()).toISOString().slice(0, 10));
  const seen = { ...perMinute(READS_PER_MINUTE), onRequest: visible.only('status') };
  app.get(
    '/api/run',
    seen,
    async (): Promise<About> => ({
      name: run.facts.name,
      model: run.facts.model,
      train: run.facts.train,
      stepTargets: targets,
      parameters: totalOf(run.model.blocks, ({ elements }) => elements),
      card: cardOf(store, run.name),
      ...given({ ends: run.facts.ends }),
    }),
  );
  app.get(
    '/api/sample',
    { ...perMinute(SAMPLES_PER_MINUTE), onRequest: visible.only('samples') },
    async (_request, reply) => {
      const sample = await samples.newest();
      return sample.ok ? { sample: sample.value } : problem(reply, 409, sample.reason);
    },
  );
  app.get('/api/today', perMinute(READS_PER_MINUTE), async (request, reply) => {
    const peer = run.reception.ofToken(bearer(request));
    return peer === null ? problem(reply, 401, 'this call needs the token of a donor') : today.placeOf(peer);
  });
  app.get('/api/leaderboard', seen, async (request) => {
    const known = ranked();
    return leaderboard(run.name, known.tokens, known.ranking, memberOf(request));
  });
}

/** Whoever computes may read every part of the state anyway: this is the same, in one file. */
function addDownload(app: FastifyInstance, { run, data }: Members): void {
  const resumeKeyOf = resumeKeys(data.store, run.name);
  /** A tab that was loaded anew after the run's end is nobody's connection any more, but proves which peer it was. */
  const hasHelped = (request: FastifyRequest): boolean => {
    const query = helperQuery.safeParse(request.query);
    if (!query.success || run.phase !== 'finished') return false;
    const peer = peerId(query.data.peer);
    return isSameSecret(bearer(request), resumeKeyOf(peer)) && data.store.stepsOf(run.name, peer) > 0;
  };
  let downloads = 0;
  app.get('/api/checkpoint', perMinute(DOWNLOADS_PER_MINUTE), async (request, reply) => {
    if (run.reception.ofToken(bearer(request)) === null && !hasHelped(request))
      return problem(reply, 401, 'this call needs the token of a donor');
    if (downloads >= DOWNLOADS_AT_ONCE) return problem(reply, 503, 'others are downloading it: try again later');
    downloads += 1;
    reply.raw.once('close', () => {
      downloads -= 1;
    });
    return sendExport(reply, data, run.name);
  });
}

/** The name of whoever has the key. */
function addNames(app: FastifyInstance, { run, data: { store }, access, visible }: Members): void {
  const own = async (request: FastifyRequest, reply: FastifyReply): Promise<undefined> => {
    // A browser names no origin where a page reads from its own server; nobody else has the key.
    if (request.method !== 'GET' && !isSameOrigin(request.headers, access))
      return refuse(reply, 403, 'only the donor page may do this');
    return memberOf(request) === null ? refuse(reply, 401, 'this call needs the key of a donor') : undefined;
  };
  app.get('/api/name', { ...perMinute(READS_PER_MINUTE), onRequest: own }, async (request) => {
    const { name = '', team = '' } = store.member(memberOf(request) ?? '') ?? {};
    return { name, team };
  });
  const names = new Arrivals(NAMES);
  // Of a run by invitation nobody else takes a name, or finds out which are taken.
  const mayBeNamed = { ...perMinute(CHANGES_PER_MINUTE), onRequest: [own, visible.invited()] };
  app.put('/api/name', mayBeNamed, async (request, reply) => {
    const id = memberOf(request) ?? '';
    const working = run.donors().filter(({ member }) => member === id);
    if (working.length === 0 && !names.may(networkOf(request.ip)))
      return problem(reply, 429, 'too many choose a name at this moment: try again in a minute');
    const body = memberNameSchema.safeParse(request.body);
    if (!body.success) return problem(reply, 400, 'expected a name and a team');
    if (store.isBlocked(addressKey(store, networkOf(request.ip))))
      return problem(reply, 403, 'whoever runs this server has blocked this network address');
    const wrong = nameProblem(body.data.name) ?? nameProblem(body.data.team);
    if (wrong !== null) return problem(reply, 400, wrong);
    const [name, team] = [tidyName(body.data.name), tidyName(body.data.team)];
    if (name === '') return problem(reply, 400, 'a name has at least one character');
    const holder = store.memberNamed(name);
    if (holder !== null && holder !== id)
      return problem(reply, 409, 'somebody has this name already, or one that looks like it');
    store.saveMember({ id, name, team }, wallMs());
    for (const { peer } of working) store.linkMember(run.name, peer, id);
    return { name, team };
  });
  app.delete('/api/name', { ...perMinute(CHANGES_PER_MINUTE), onRequest: own }, async (request) => {
    store.deleteMember(memberOf(request) ?? '');
    return { name: '', team: '' };
  });
}
