/**
 * What an operator does to runs and donors, beside the four commands: create, activate, go back, keep a checkpoint, let
 * a donor go, close the door to an address, try a plan, take an export along. Each is written to the run's audit with
 * the session that did it, whether it was granted or not. Registered behind the session and the origin check.
 */
import { createHmac } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { type PeerId, peerId, type Result, refusal, success } from '../../swarm/base.ts';
import { count } from '../../swarm/fields.ts';
import { runCardSchema } from '../../swarm/messages/about.ts';
import { type ApiKeyList, apiKeyDraftSchema } from '../../swarm/messages/apiKeys.ts';
import { rehearsalText, rehearsalWishSchema } from '../../swarm/messages/rehearsal.ts';
import { alertLimitsSchema, webhookSchema } from '../../swarm/messages/watch.ts';
import {
  dryRunQuestionSchema,
  folderOf,
  type ListedModel,
  noteSchema,
  type RunList,
  runDraftSchema,
} from '../../swarm/run/runDraft.ts';
import { countText, perMinute, problem } from '../http/calls.ts';
import { wallMs } from '../monitoring/clock.ts';
import { addOperatorEvent } from '../run/history.ts';
import { manifestHashes, parseManifest, stateProblem } from '../store/checkpointState.ts';
import { sweepBlobs } from '../store/keptBlobs.ts';
import { cardOf } from '../store/runCard.ts';
import { ADDRESS_SECRET, type Store } from '../store/store.ts';
import { type Deed, deed, deedText } from './deed.ts';
import { exportProblem, sendExport } from './export.ts';
import { listedModels } from './modelFolders.ts';
import type { OperatorContext } from './operatorContext.ts';
import { dryRun } from './plan.ts';
import { setQueued } from './queue.ts';
import { createRun, listedRuns } from './runs.ts';
import { LARGEST_SAMPLED, sampleCheckpoint, samplesBody } from './samples.ts';
import { newSessionKey } from './session.ts';
import { addTexts, listedTexts } from './texts.ts';

const READS_PER_MINUTE = 240;
const CHANGES_PER_MINUTE = 60;
const SEARCHES_PER_MINUTE = 20;

const NOT_UNDERSTOOD = 'this page and the server do not understand each other: reload it';

const runName = z.string().max(200);
const runBody = z.object({ run: runName });
const checkpointBody = z.object({ run: runName, step: count });
/** `generation`: of a checkpoint that a roll-back left behind. */
const keepBody = checkpointBody.extend({ kept: z.boolean(), generation: count.optional() });
const queueBody = runBody.extend({ queued: z.boolean() });
const webhookBody = z.object({ url: webhookSchema });
const noteBody = runBody.extend({ note: noteSchema });
const peerBody = z.object({ peer: z.string().min(1).max(64) });
const letGoBody = peerBody.extend({ how: z.enum(['atBoundary', 'atOnce', 'block']) });
const unblockBody = z.object({ address: z.string().max(64) });
/** `merged`: an adapter with its base. `ask`: nothing is sent, it is only told whether it would be. */
const exportQuery = z.object({
  run: runName,
  step: countText.optional(),
  generation: countText.optional(),
  merged: z.literal('1').optional(),
  ask: z.literal('1').optional(),
});

/** An address as it is kept: nobody reads it out of the store, and it is known again. */
export function addressKey(store: Store, address: string): string {
  const key = store.secret(ADDRESS_SECRET, newSessionKey);
  return createHmac('sha256', key).update(address).digest('hex').slice(0, 32);
}

export function addOperatorControls(api: FastifyInstance, context: OperatorContext): void {
  const change = changes(api, context);
  addTexts(api, context);
  for (const add of [addRuns, addModels, addCheckpoints, addWords, addKeys, addDonors]) add(api, change, context);
}

/** Adds a change: its body is checked, what came of it is answered and written down. */
const changes =
  (api: FastifyInstance, { run, data: { store }, session }: OperatorContext) =>
  <Body>(
    path: string,
    schema: z.ZodType<Body>,
    words: (body: Body) => Deed,
    act: (body: Body) => Promise<Result<unknown>> | Result<unknown>,
    wrong: (error: z.ZodError) => string = () => NOT_UNDERSTOOD,
  ): void => {
    api.post(path, perMinute(CHANGES_PER_MINUTE), async (request, reply) => {
      const body = schema.safeParse(request.body);
      if (!body.success) return problem(reply, 400, wrong(body.error));
      const done = await act(body.data);
      const said = deedText(words(body.data), done.ok ? null : done.reason);
      const by = session.nameOf(request.headers.cookie);
      addOperatorEvent(store, run.name, said, by, run.committedSteps, wallMs());
      // Every other dashboard sees it too, also while the run rests.
      run.tellWatchers();
      return done.ok ? { ok: true, value: done.value } : problem(reply, 409, done.reason);
    });
  };

type Adds = (api: FastifyInstance, change: ReturnType<typeof changes>, context: OperatorContext) => void;

const addRuns: Adds = (api, change, context) => {
  const { run, data, onActivate, site, hub } = context;
  const { store } = data;
  api.get('/api/operator/runs', perMinute(READS_PER_MINUTE), async (): Promise<RunList> => {
    const canActivate = onActivate !== undefined;
    const canBeside = site !== undefined && !site.isBeside;
    const queue = store.queue();
    return { runs: listedRuns(data), texts: listedTexts(store), canActivate, canBeside, queue, hub };
  });
  api.post('/api/operator/plan', perMinute(SEARCHES_PER_MINUTE), async (request, reply) => {
    const question = dryRunQuestionSchema.safeParse(request.body);
    if (!question.success) {
      const field = question.error.issues[0]?.path.join('.') || 'the question';
      return problem(reply, 400, `${field} is missing, or out of its range`);
    }
    const answer = await dryRun(context, question.data);
    return answer.ok ? answer.value : problem(reply, 409, answer.reason);
  });
  change(
    '/api/operator/runs',
    runDraftSchema,
    ({ name, source, model, text, checkpoint }) =>
      deed(
        'create',
        'created',
        `run ${name} from ${folderOf(model) ?? source}${text === null ? '' : `, text ${text}`}${checkpoint === null ? '' : `, checkpoint ${checkpoint}`}`,
      ),
    (draft) => createRun(data, context.models, draft, wallMs()),
  );
  change(
    '/api/operator/activate',
    runBody,
    ({ run: name }) => deed('activate', 'activated', `run ${name}`),
    ({ run: name }) => activate(context, name),
  );
  change(
    '/api/operator/beside',
    runBody,
    ({ run: name }) => deed('train', 'began to train', `run ${name} beside ${run.name}`),
    ({ run: name }) => site?.startBeside(name) ?? refusal('only the servers of a site train several runs at once'),
  );
  change(
    '/api/operator/queue',
    queueBody,
    ({ run: name, queued }) =>
      queued ? deed('queue', 'queued', `run ${name}`) : deed('take', 'took', `run ${name} out of the queue`),
    ({ run: name, queued }) => setQueued(store, run.name, name, queued),
  );
  change(
    '/api/operator/note',
    noteBody,
    ({ run: name }) => deed('write', 'wrote', `a note on ${name}`),
    ({ run: name, note }) => (store.run(name) === null ? noRun(name) : saved(store, `note ${name}`, note)),
  );
};

/** Looking at all folders takes a while: who asks meanwhile is told the same. */
const addModels: Adds = (api, _change, { models }) => {
  let looking: Promise<ListedModel[]> | null = null;
  api.get('/api/operator/models', perMinute(READS_PER_MINUTE), async () => {
    looking ??= listedModels(models).finally(() => {
      looking = null;
    });
    return { models: await looking };
  });
};

const addCheckpoints: Adds = (api, change, context) => {
  const { run, data, session, own } = context;
  const { store } = data;
  api.get('/api/operator/export', perMinute(SEARCHES_PER_MINUTE), async (request, reply) => {
    const query = exportQuery.safeParse(request.query);
    if (!query.success) return problem(reply, 400, 'expected a run and a step');
    const { run: name, step, generation, merged, ask } = query.data;
    if (ask !== undefined) {
      const refused = exportProblem(data, name, step, generation);
      return refused === null ? { ok: true } : problem(reply, refused.status, refused.sentence);
    }
    addOperatorEvent(
      store,
      run.name,
      `exported ${name}`,
      session.nameOf(request.headers.cookie),
      run.committedSteps,
      wallMs(),
    );
    return sendExport(reply, data, name, { step, generation, isMerged: merged !== undefined });
  });
  change(
    '/api/operator/back',
    checkpointBody,
    ({ run: name, step }) => deed('send', 'sent', `${name} back to checkpoint ${step}`),
    ({ run: name, step }) => sendBack(context, name, step),
  );
  change(
    '/api/operator/keep',
    keepBody,
    ({ run: name, step, kept }) => {
      const object = `checkpoint ${step} of ${name}`;
      return kept ? deed('keep', 'chose to keep', object) : deed('let go of', 'let go of', object);
    },
    (body) => keep(context, body),
  );
  api.get('/api/operator/samples', perMinute(READS_PER_MINUTE), async (request, reply) => {
    const query = runBody.safeParse(request.query);
    if (!query.success) return problem(reply, 400, 'expected a run');
    return { samples: store.samples(query.data.run), evaluations: [...store.evaluations(query.data.run)] };
  });
  change(
    '/api/operator/samples',
    samplesBody,
    ({ run: name, step }) => deed('take', 'took', `a sample of checkpoint ${step} of ${name}`),
    (question) => sampleCheckpoint(data, own, question, LARGEST_SAMPLED),
  );
};

/** What the run tells others of itself: donors by its card, whoever is to know by alerts. */
const addWords: Adds = (api, change, { run, data: { store }, alerts }) => {
  api.get('/api/operator/card', perMinute(READS_PER_MINUTE), async () => ({ card: cardOf(store, run.name) }));
  change(
    '/api/operator/card',
    runCardSchema,
    () => deed('describe', 'described', `${run.name} for its donors`),
    (card) => saved(store, `card ${run.name}`, JSON.stringify(card)),
  );
  change(
    '/api/operator/alerts',
    alertLimitsSchema,
    ({ donors, checkpointMinutes, stalledSeconds }) =>
      deed(
        'set',
        'set',
        `alerts: fewer than ${donors} donors, ${checkpointMinutes} min without a checkpoint, ${stalledSeconds} s without a step`,
      ),
    (limits) => saved(store, `alertLimits ${run.name}`, JSON.stringify(limits)),
  );
  api.get('/api/operator/webhook', perMinute(READS_PER_MINUTE), async () => ({ url: store.setting('webhook') ?? '' }));
  change(
    '/api/operator/webhook',
    webhookBody,
    ({ url }) =>
      url === '' ? deed('remove', 'removed', 'the address for alerts') : deed('set', 'set', 'an address for alerts'),
    ({ url }) => saved(store, 'webhook', url),
    ({ issues }) => issues[0]?.message ?? NOT_UNDERSTOOD,
  );
  change(
    '/api/operator/webhook/try',
    z.object({}),
    () => deed('send', 'sent', 'a test alert'),
    () => alerts.try(),
  );
};

/** Of those who ask a model. What is written down names no key. */
const addKeys: Adds = (api, change, { keys, apiMode: mode, run }) => {
  api.get(
    '/api/operator/keys',
    perMinute(READS_PER_MINUTE),
    async (): Promise<ApiKeyList> => ({
      mode,
      keys: keys.list().map(({ hash: _, ...key }) => key),
      answers: run.answers.numbers,
    }),
  );
  change(
    '/api/operator/keys',
    apiKeyDraftSchema,
    ({ name, tokensAnHour }) => deed('make', 'made', `an API key for ${name}, ${tokensAnHour} tokens an hour`),
    (draft) => keys.make(draft),
  );
  change(
    '/api/operator/keys/revoke',
    z.object({ id: z.string().max(64) }),
    ({ id }) => deed('revoke', 'revoked', `the API key ${id}`),
    ({ id }) => keys.revoke(id),
  );
};

const addDonors: Adds = (api, change, context) => {
  const { store } = context.data;
  api.get('/api/operator/blocks', perMinute(READS_PER_MINUTE), async () => ({ blocks: store.blocks() }));
  change(
    '/api/operator/let-go',
    letGoBody,
    ({ peer, how }) => LET_GO_DEEDS[how](peer),
    ({ peer, how }) => letGo(context, peerId(peer), how),
  );
  change(
    '/api/operator/rehearse',
    rehearsalWishSchema,
    (wish) => deed('rehearse', 'rehearsed', `a fault on ${wish.peer}: ${rehearsalText(wish)}`),
    (wish) => context.rehearsals.begin(wish),
  );
  change(
    '/api/operator/unblock',
    unblockBody,
    ({ address }) => deed('let', 'let', `address ${address} in again`),
    ({ address }) => {
      store.unblock(address);
      return success(null);
    },
  );
};

function saved(store: Store, name: Parameters<Store['saveSetting']>[0], value: string): Result<null> {
  store.saveSetting(name, value);
  return success(null);
}

const noRun = (name: string): Result<never> => refusal(`there is no run "${name}" here`);

function activate({ run, data: { store }, onActivate }: OperatorContext, name: string): Result<null> {
  if (onActivate === undefined) return refusal('this server trains one run only');
  if (store.run(name) === null) return noRun(name);
  if (name === run.name || store.besideRuns().includes(name)) return refusal('this run is active already');
  // After the answer is on its way.
  setImmediate(() => onActivate(name));
  return success(null);
}

type HowToGo = z.infer<typeof letGoBody>['how'];
const LET_GO_DEEDS: Readonly<Record<HowToGo, (peer: string) => Deed>> = {
  atBoundary: (peer) => deed('let', 'let', `${peer} go after its step`),
  atOnce: (peer) => deed('let', 'let', `${peer} go at once`),
  block: (peer) => deed('block', 'blocked', `the address of ${peer}`),
};

async function sendBack({ run, data }: OperatorContext, name: string, step: number): Promise<Result<null>> {
  if (name !== run.name) return refusal('only the active run can go back: activate it first');
  const manifest = data.store.checkpoint(name, step);
  if (manifest === null) return refusal('this checkpoint is gone already');
  const fault = await stateProblem(data.blobs, parseManifest(manifest));
  if (fault !== null) return refusal(fault);
  // Looking at its files took a while.
  if (data.store.checkpoint(name, step) === null) return refusal('this checkpoint is gone already');
  if (step >= run.committedSteps)
    return refusal(`the run stands at step ${run.committedSteps}: there is nothing to go back from`);
  run.sendBack(step);
  return success(null);
}

/** A former one is kept, or it goes: no newer one would ever supersede it. */
async function keep(
  { data: { store, blobs } }: OperatorContext,
  { run: name, step, kept, generation }: z.infer<typeof keepBody>,
): Promise<Result<null>> {
  const manifest = store.checkpoint(name, step, generation);
  if (manifest === null) return refusal('this checkpoint is gone already');
  if (generation === undefined) store.keepCheckpoint(name, step, kept);
  else if (!kept) {
    store.deleteCheckpoint(name, step, generation);
    await sweepBlobs(store, blobs, manifestHashes(parseManifest(manifest)));
  }
  return success(null);
}

function letGo({ run, data: { store } }: OperatorContext, peer: PeerId, how: HowToGo): Result<null> {
  const donor = run.donors().find((each) => each.peer === peer);
  if (donor === undefined) return refusal('this donor is gone already');
  if (how === 'atBoundary') run.letGo(peer, null);
  else if (how === 'atOnce') run.letGo(peer, 'letGo');
  else {
    const { address } = donor.link;
    const note = donor.adapter.description || donor.adapter.vendor;
    store.block(addressKey(store, address), note, wallMs());
    for (const each of run.donors()) {
      if (each.link.address !== address) continue;
      if (each.member !== null) store.deleteMember(each.member); // off the leaderboard, too
      run.letGo(each.peer, 'blocked');
    }
  }
  return success(null);
}
