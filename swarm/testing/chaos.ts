/**
 * A rehearsal left to chance: a clock of events, donors that answer after a while of their own, and everything that
 * goes wrong in the field, all from one seed. It has two acts. In the first one donors, links and the server fail; in
 * the second nobody does any more, and the run must come to its end.
 */

import { answerTo } from '../autoplan/wishes.ts';
import { below, invariant, type PeerId, peerId, type Random, refusal, seededRandom, success } from '../base.ts';
import { type DonorMessage, HELD, type PlanAnswer } from '../coordinator/events.ts';
import { membersInvolved } from '../coordinator/successor.ts';
import type { DecisiveMessage } from '../decisions/events.ts';
import { NO_LIMITS } from '../limits.ts';
import type { ServerMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Model } from '../model/model.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { Recording } from '../recording/recording.ts';
import { fault, garbage, measured, pick, splitOfSome, spoil } from './chaosWords.ts';
import { CoordinatorAlone, type RehearsedEffect, type RehearsedEvent } from './decider.ts';
import { answer } from './honestDonor.ts';
import { islandsOf } from './islands.ts';
import { happen, type Rehearsal, rehearse, rehearseDecisions, restart } from './rehearsal.ts';
import {
  ADAPTER,
  decisionConfig,
  LEAST_BYTES,
  MICRO_BATCHES,
  type RehearsalTerms,
  rehearsalTerms,
} from './rehearsalTerms.ts';
import { ringReplicas } from './ringReplicas.ts';

/** What a donor does wrong, as long as the first act lasts. `deaf`: it lives, and never says ready. `mute`: nor reports. */
const CHARACTERS = ['honest', 'honest', 'honest', 'honest', 'slow', 'deaf', 'mute', 'broken', 'infinite'] as const;
type Character = (typeof CHARACTERS)[number];

interface ModelDonor {
  readonly peer: PeerId;
  readonly character: Character;
  /** It gives so little memory that the plan has no part for it. */
  readonly isSmall: boolean;
  plan: Plan | null;
  epoch: number;
  /** Its socket carries messages in order, both ways. */
  hearsAt: number;
  saysAt: number;
  lastSaid: DecisiveMessage | null;
  /** Committed steps in the state it holds, as far as it heard. */
  stateStep: number | null;
  paused: boolean;
  /** Seconds of a layer's forward for one sample. */
  readonly slowness: number;
}

interface Chaos {
  readonly random: Random;
  readonly run: Rehearsal;
  readonly queue: { readonly at: number; readonly act: () => void }[];
  readonly donors: Map<PeerId, ModelDonor>;
  now: number;
  born: number;
  events: number;
  firstAct: boolean;
  /** Most donors at a time. */
  readonly crowd: number;
  readonly model: Model;
  readonly terms: RehearsalTerms;
  readonly isPlannerSlow: boolean;
}

interface ChaosResult {
  readonly events: number;
  readonly epochs: number;
  readonly rollBacks: number;
  readonly commits: number;
  /** Steps committed with more donors than layers. */
  readonly laneCommits: number;
}

/** The coordinator alone, which is told plans at once or late, or all decisions, with plans as wished for or as measured. */
export type DecidedBy = 'coordinator' | 'wishes' | 'auto';

/** Plays both acts, every event told to `recording`. Throws where an invariant is broken, or the run does not end although its donors stay. */
export function playChaos(
  seed: number,
  firstActEvents: number,
  decidedBy: DecidedBy,
  recording: Recording | null = null,
): ChaosResult {
  const auto = decidedBy === 'auto';
  const random = seededRandom(seed);
  const layers = 1 + below(random, 4);
  const lanes = random() < 0.5 ? 1 : 2 + below(random, 3);
  // No plan has more lanes than micro-batches, and all who are expected have to compute.
  const mayExpect = random() < 0.3 && !auto;
  const expected = mayExpect ? 1 + below(random, layers * Math.min(lanes, MICRO_BATCHES)) : null;
  const split = rehearsalTerms({
    layers,
    lanes,
    steps: 5 + below(random, 150),
    ...(seed % 4 === 3 ? { islands: islandsOf(1 + ((seed >> 2) % 3), 1 + ((seed >> 4) % 5)) } : {}),
    checkpointEverySteps: 1 + below(random, 8),
    evaluation: random() < 0.5 ? { everySteps: 1 + below(random, 6), windows: 4 } : null,
    gradientClipNorm: random() < 0.5 ? 1 : null,
    expectedDonors: expected,
    ...(seed % 2 === 0 ? { compute: 'f16' as const } : {}),
    ...(seed % 5 === 1 ? { lateBytes: 0 } : {}),
  });
  const replicas = seed % 3;
  const terms = {
    ...split,
    makePlan: (...asked: Parameters<typeof split.makePlan>) => {
      const plan = split.makePlan(...asked);
      return plan.ok ? success(ringReplicas(plan.value, replicas)) : plan;
    },
  };
  const isPlannerSlow = decidedBy === 'coordinator' && seed % 3 === 0;
  const decisions = decisionConfig(terms.config, { groups: 1, ...(auto ? { auto } : {}) });
  const run =
    decidedBy === 'coordinator'
      ? rehearse(terms, isPlannerSlow ? () => null : undefined)
      : rehearseDecisions(decisions, recording);
  const crowd = Math.max(6, layers * lanes + 2);
  const chaos: Chaos = {
    random,
    run,
    queue: [],
    donors: new Map(),
    now: 0,
    born: 0,
    events: 0,
    firstAct: true,
    crowd,
    model: acceptedModel(decisions.planning),
    terms,
    isPlannerSlow,
  };
  admit(chaos);
  while (chaos.events < firstActEvents && run.ended === null) {
    if (random() < 0.06) mischief(chaos);
    else advance(chaos);
    if (run.state.phase.name === 'stopped') revive(chaos);
  }
  secondAct(chaos, expected ?? 1);
  return {
    events: chaos.events,
    epochs: run.store.epoch,
    rollBacks: run.store.generation,
    commits: run.store.commits.length,
    laneCommits: run.store.commits.filter(({ donors }) => donors > layers).length,
  };
}

/** Enough honest donors come, the others go, the operator says go on. */
function secondAct(chaos: Chaos, enough: number) {
  const { run } = chaos;
  chaos.firstAct = false;
  if (run.ended === 'finished') return;
  // One that is expected and fits no plan stops the run by itself, and so do as many small ones as are looked at.
  const small = chaos.donors.size - large(chaos);
  const blocks = run.config.expectedDonors !== null || small >= run.config.capacity;
  const stops = ({ character, isSmall }: ModelDonor) => character !== 'honest' || (isSmall && blocks);
  for (const donor of [...chaos.donors.values()]) if (stops(donor)) die(chaos, donor);
  if (run.state.phase.name === 'stopped') revive(chaos);
  for (const donor of chaos.donors.values()) if (donor.paused) say(chaos, donor, { type: 'resume' });
  while (staying(chaos) < enough) admit(chaos);
  happened(chaos, { type: 'stepsHeld', held: 'none' });
  happened(chaos, { type: 'operatorSaid', command: 'resume' });
  const limit = chaos.events + 20_000;
  while (run.ended === null) {
    if (staying(chaos) < enough) admit(chaos);
    advance(chaos);
    invariant(chaos.events < limit, `the run comes to its end (it stands in ${run.state.phase.name})`);
  }
  invariant(run.state.phase.name === 'finished', 'the run finishes');
  for (const [index, record] of run.store.commits.entries()) invariant(record.step === index, 'each step stands once');
}

const large = ({ donors }: Chaos): number => [...donors.values()].filter(({ isSmall }) => !isSmall).length;

/** Whoever wants to go may have to keep the state until another one is there (RE22). */
function staying(chaos: Chaos): number {
  const { donors } = chaos.run.state;
  return large(chaos) - donors.filter(({ wish }) => wish === 'leaving' || wish === 'pausing').length;
}

/** The next thing that is due: a message on its way, or a deadline. */
function advance(chaos: Chaos) {
  const deadline = chaos.run.decider.deadline ?? Infinity;
  const next = chaos.queue[0];
  if (next !== undefined && next.at <= deadline) {
    chaos.queue.shift();
    chaos.now = Math.max(chaos.now, next.at);
    next.act();
  } else if (deadline < Infinity) {
    chaos.now = Math.max(chaos.now, deadline);
    const before = chaos.run.state;
    happened(chaos, { type: 'deadlineReached' });
    const changed = chaos.run.state !== before || chaos.run.decider.deadline !== deadline;
    invariant(changed, 'a deadline that was reached changes something');
  } else if (chaos.firstAct || chaos.donors.size === 0) {
    mischief(chaos);
  } else {
    throw new Error(`nothing is due in ${JSON.stringify(chaos.run.state.phase)}, and the run is not finished`);
  }
}

function later(chaos: Chaos, at: number, act: () => void) {
  let index = chaos.queue.length;
  while (index > 0 && (chaos.queue[index - 1]?.at ?? 0) > at) index--;
  chaos.queue.splice(index, 0, { at, act });
}

function happened(chaos: Chaos, event: RehearsedEvent) {
  chaos.events++;
  const effects = happen(chaos.run, event, chaos.now);
  for (const effect of effects) {
    if (effect.type === 'send') {
      const donor = chaos.donors.get(effect.to);
      invariant(donor, `${effect.to} is there to be told`);
      donor.hearsAt = Math.max(donor.hearsAt, chaos.now + 1 + chaos.random() * 50);
      later(chaos, donor.hearsAt, () => hears(chaos, donor, effect.message));
    }
    if (effect.type === 'refuse') chaos.donors.delete(effect.peer);
    if (effect.type === 'search') searchLater(chaos, effect);
    if (effect.type === 'planWanted') answerLater(chaos, effect);
  }
  letsGo(chaos, effects);
}

/** A planner that takes its time: the donors may be others when it answers, and another plan wanted. */
function answerLater(chaos: Chaos, { ask, ...wanted }: Extract<RehearsedEffect, { type: 'planWanted' }>) {
  const takes = (chaos.firstAct ? 20_000 : 2_000) * chaos.random() ** 3;
  const answer = answerTo(wanted, chaos.terms.makePlan);
  later(chaos, chaos.now + takes, () => happened(chaos, { type: 'planned', ask, answer }));
}

/** A search that takes its time, refuses, or never answers: the donors may be others when it does. */
function searchLater(chaos: Chaos, { search, problem, budget }: Extract<RehearsedEffect, { type: 'search' }>) {
  const { random, model, firstAct } = chaos;
  const fate = random();
  if (fate < 0.1) return;
  const takes = (fate < 0.3 ? 30_000 : 1_000) * random();
  const refuses = random() < 0.15;
  const outcome = splitOfSome(random, model, problem, chaos.run.config.capacity, firstAct);
  later(chaos, chaos.now + takes, () => {
    // In the second act there is a plan for whoever needs one.
    const mayRefuse = chaos.firstAct || budget === 'atLength';
    happened(chaos, { type: 'searched', search, found: refuses && mayRefuse ? refusal('it found none') : outcome });
  });
}

/** Who is told to stand by drops what it holds: it has no part in what is in progress, or is told of a part right after. */
function letsGo({ run }: Chaos, effects: readonly RehearsedEffect[]) {
  const involved = membersInvolved(run.state);
  const last = new Map(effects.flatMap((effect) => (effect.type === 'send' ? [[effect.to, effect.message.type]] : [])));
  for (const [peer, type] of last)
    invariant(type !== 'standby' || !involved.includes(peer), `${peer} is needed and was let go`);
}

const here = (chaos: Chaos, donor: ModelDonor): boolean => chaos.donors.get(donor.peer) === donor;

function hears(chaos: Chaos, donor: ModelDonor, message: ServerMessage) {
  if (!here(chaos, donor)) return;
  if (message.type === 'prepare') {
    const { source } = message;
    const keeps = source.from === 'kept' || (source.from === 'peers' && peers(source.plan).includes(donor.peer));
    if (keeps) {
      invariant(donor.stateStep === message.step, `${donor.peer} keeps the state after ${donor.stateStep} steps`);
      invariant(donor.epoch < message.epoch, 'epochs rise');
    }
    donor.stateStep = message.step;
    donor.plan = message.plan;
    donor.epoch = message.epoch;
  }
  if (message.type === 'committed') {
    invariant(donor.stateStep === message.step, `${donor.peer} applies each step once`);
    donor.stateStep = message.step + 1;
  }
  if (message.type === 'standby') {
    if (message.state === 'left') die(chaos, donor);
    if (message.state === 'paused') donor.paused = true;
    // Its button was pressed in the first act.
    if (donor.paused && !chaos.firstAct) later(chaos, chaos.now + 1, () => say(chaos, donor, { type: 'resume' }));
  }
  if (message.type === 'probe') return probes(chaos, donor, message.peer);
  if (message.type === 'abandon') return;
  const plan = message.type === 'warm' ? message.plan : donor.plan;
  const reply = plan && answer(chaos.run.config, donor.peer, plan, message);
  if (reply !== null) replies(chaos, donor, reply);
}

function replies(chaos: Chaos, donor: ModelDonor, reply: DonorMessage) {
  const { random, firstAct } = chaos;
  const overflows = chaos.run.config.compute === 'f16';
  if (firstAct && donor.character === 'deaf' && random() < 0.5) return;
  if (firstAct && donor.character === 'mute' && reply.type !== 'ready' && random() < 0.3) return;
  if (firstAct && donor.character === 'broken' && random() < 0.1)
    return say(chaos, donor, garbage(random, chaos.run, donor));
  const odd = firstAct && donor.character === 'infinite' && random() < 0.1;
  const told = reply.type === 'report' ? measured(random, [...chaos.donors.keys()], donor, reply) : reply;
  const said = odd && told.type === 'report' ? spoil(told, overflows && random() < 0.7) : told;
  const slowness = firstAct && donor.character === 'slow' ? 20_000 : 2_000;
  const takes = reply.type === 'report' || firstAct ? random() * slowness : random() * 500;
  donor.saysAt = Math.max(donor.saysAt, chaos.now + takes);
  later(chaos, donor.saysAt, () => say(chaos, donor, said));
}

/** It may find out how fast its link to that one is. */
function probes(chaos: Chaos, donor: ModelDonor, other: PeerId) {
  const { random } = chaos;
  if (random() < 0.3) return;
  const link = { peer: other, roundTripMs: 100 * random(), bytesPerSecond: 1e6 * random() };
  later(chaos, chaos.now + 3_000 * random(), () => say(chaos, donor, { type: 'probed', ...link }));
}

function say(chaos: Chaos, donor: ModelDonor, message: DecisiveMessage) {
  if (!here(chaos, donor)) return;
  donor.lastSaid = message;
  if (message.type === 'resume') donor.paused = false;
  happened(chaos, { type: 'donorSaid', peer: donor.peer, message });
  // Its page closes by itself.
  if (message.type === 'fault' && message.reason === 'deviceLost') chaos.donors.delete(donor.peer);
}

function die(chaos: Chaos, donor: ModelDonor) {
  chaos.donors.delete(donor.peer);
  happened(chaos, { type: 'donorGone', peer: donor.peer, detail: 'its tab was closed' });
}

function admit(chaos: Chaos) {
  const peer = peerId(`p${chaos.born++}`);
  const character = chaos.firstAct ? pick(chaos.random, CHARACTERS) : 'honest';
  const { now } = chaos;
  const isSmall = chaos.firstAct && chaos.random() < 0.15;
  const slowness = 0.01 + chaos.random();
  chaos.donors.set(peer, {
    ...{ peer, character, isSmall, plan: null, epoch: 0, hearsAt: now, saysAt: now, lastSaid: null, stateStep: null },
    ...{ paused: false, slowness },
  });
  const memoryBytes = isSmall ? LEAST_BYTES - 1 : null;
  const times = { samples: 1, forwardSeconds: slowness, backwardSeconds: 2 * slowness };
  const isMeasured = chaos.random() < 0.9;
  happened(chaos, {
    ...{ type: 'donorJoined', peer, adapter: ADAPTER, limits: { ...NO_LIMITS, memoryBytes } },
    profile: isMeasured
      ? { layers: [times], memoryBytes: 2 ** 30, memoryTriedBytes: 2 ** 30, checkedKernels: 0 }
      : null,
    ...{ rememberedAs: peer, remembered: null, address: peer, isOwn: false },
  });
  // The run was finished before it came.
  if (!chaos.run.connected.has(peer)) chaos.donors.delete(peer);
}

/** The server comes back from its store, and the tabs that still live find it again. */
function revive(chaos: Chaos) {
  const tabs = chaos.donors.size;
  chaos.donors.clear();
  restart(chaos.run, chaos.run.decider instanceof CoordinatorAlone || chaos.random() < 0.5);
  if (chaos.run.state.phase.name === 'finished') chaos.run.ended = 'finished';
  else for (let tab = 0; tab < tabs; tab++) admit(chaos);
}

/** One thing that goes wrong, or that a person does. */
function mischief(chaos: Chaos) {
  const { random } = chaos;
  const donors = [...chaos.donors.values()];
  if (donors.length === 0 || (donors.length < chaos.crowd && random() < 0.3)) return admit(chaos);
  const mayPropose = chaos.isPlannerSlow && chaos.run.config.expectedDonors === null;
  if (mayPropose && random() < 0.2) return propose(chaos);
  const donor = pick(random, donors);
  const wrong = random();
  if (wrong < 0.1) return die(chaos, donor);
  if (wrong < 0.25) return say(chaos, donor, { type: 'pause' });
  if (wrong < 0.45) return say(chaos, donor, { type: 'resume' });
  if (wrong < 0.5) return say(chaos, donor, { type: 'leave' });
  if (wrong < 0.53) return donor.lastSaid === null ? undefined : say(chaos, donor, donor.lastSaid);
  if (wrong < 0.56) return say(chaos, donor, { type: 'limits', limits: { ...NO_LIMITS, speed: 0.1 + 0.9 * random() } });
  if (wrong < 0.7) return say(chaos, donor, fault(random, donor));
  if (wrong < 0.75) return say(chaos, donor, garbage(random, chaos.run, donor));
  if (wrong < 0.8) return happened(chaos, { type: 'operatorSaid', command: 'pause' });
  if (wrong < 0.83) return happened(chaos, { type: 'stepsHeld', held: pick(random, HELD) });
  if (wrong < 0.84) return happened(chaos, { type: 'gatheringEnded' });
  if (wrong < 0.97) return happened(chaos, { type: 'operatorSaid', command: pick(random, ['start', 'resume']) });
  if (wrong < 0.98) return happened(chaos, { type: 'operatorSaid', command: 'stop' });
  revive(chaos);
}

/** A plan for some of those who are here, or that the plan in force may stay. */
function propose(chaos: Chaos) {
  const { random, run } = chaos;
  const large = run.state.donors.flatMap(({ peer, memoryBytes }) => (memoryBytes === null ? peer : []));
  const some = large.filter(() => random() < 0.7).slice(0, run.config.capacity);
  const plan = some.length === 0 || random() < 0.2 ? null : chaos.terms.makePlan(some, new Map());
  const answer: PlanAnswer = plan?.ok
    ? { answer: 'plan', plan: plan.value, reason: 'it is faster' }
    : { answer: 'stays' };
  happened(chaos, { type: 'planned', ask: null, answer });
}
