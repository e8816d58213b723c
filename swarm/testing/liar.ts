/**
 * One who lies among honest donors: every word of its own is chosen by chance out of the worst that there are, and what
 * it sends may be no number, which the honest ones see and say. Refused, it comes back. Judged is what that does to the
 * others: the run goes on to its end, and none of them is refused more than once.
 */
import { below, invariant, type PeerId, peerId, type Random, seededRandom, total } from '../base.ts';
import type { DonorMessage } from '../coordinator/events.ts';
import { membersOf, planInForce } from '../coordinator/state.ts';
import { NO_LIMITS } from '../limits.ts';
import type { EvaluatedMessage, ReportMessage, ServerMessage, UnsoundTensor } from '../messages/messages.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { pick } from './chaosWords.ts';
import type { RehearsedEvent } from './decider.ts';
import { answer } from './honestDonor.ts';
import { happen, type Rehearsal, rehearse } from './rehearsal.ts';
import { ADAPTER, rehearsalTerms } from './rehearsalTerms.ts';

/** It comes back so often. */
const VISITS = 6;
const STEP_MS = 50;

interface Play {
  readonly random: Random;
  readonly run: Rehearsal;
  /** What each was told and has not answered, in order. */
  readonly told: { readonly to: PeerId; readonly message: ServerMessage }[];
  /** How often each honest donor was refused, by the letter it has on every visit. */
  readonly refusals: Map<string, number>;
  /** That each was told last. */
  readonly plans: Map<PeerId, Plan>;
  /** The honest one that gets what is no number from the liar, in this epoch; null: everything is sound. */
  victim: PeerId | null;
  epoch: number;
  visits: number;
  now: number;
  events: number;
}

interface LiarResult {
  readonly events: number;
  readonly lies: number;
  readonly refusedHonest: number;
  readonly visits: number;
}

const isLiar = (peer: PeerId): boolean => peer.startsWith('liar');
const letterOf = (peer: PeerId): string => peer.slice(0, 1);

export function playLiar(seed: number): LiarResult {
  const random = seededRandom(seed);
  const honest = 2 + below(random, 2);
  const terms = rehearsalTerms({
    ...{
      layers: 2 + below(random, 3),
      lanes: 2 + below(random, 2),
      steps: 150,
      checkpointEverySteps: 1 + below(random, 6),
    },
    evaluation: random() < 0.5 ? { everySteps: 1 + below(random, 6), windows: 4 } : null,
    expectedDonors: null,
    ...(seed % 4 === 0 ? { compute: 'f16' as const } : {}),
  });
  const play: Play = {
    ...{ random, run: rehearse(terms), told: [], refusals: new Map(), plans: new Map() },
    ...{ victim: null, epoch: 0, visits: 0, now: 0, events: 0 },
  };
  for (let index = 0; index < honest; index++) join(play, `${'abc'[index]}0`);
  let told = 0;
  while (play.run.ended === null) {
    invariant(play.events < 20_000, `the run comes to its end (it stands in ${play.run.state.phase.name})`);
    invariant(play.run.state.phase.name !== 'diverged', 'one liar does not pause the run');
    const isHere = play.run.state.donors.some(({ peer }) => isLiar(peer));
    if (!isHere && play.visits < VISITS && random() < 0.3) join(play, `liar${play.visits++}`);
    const next = play.told.shift();
    if (next === undefined) wait(play);
    else {
      const { to, message } = next;
      if (message.type === 'prepare') play.plans.set(to, message.plan);
      const lies = isLiar(to) && random() < 0.7;
      if (lies) told++;
      (lies ? lie : speak)(play, to, message);
    }
  }
  const refused = [...play.refusals.values()];
  for (const times of refused) invariant(times <= 1, 'no honest donor is refused twice');
  const refusedHonest = total(refused);
  return { events: play.events, lies: told, refusedHonest, visits: play.visits };
}

function join(play: Play, name: string): void {
  const peer = peerId(name);
  happened(play, {
    ...{ type: 'donorJoined', peer, adapter: ADAPTER, limits: NO_LIMITS, address: name, isOwn: false },
    ...{ profile: null, rememberedAs: null, remembered: null },
  });
}

function happened(play: Play, event: RehearsedEvent): void {
  play.events++;
  for (const effect of happen(play.run, event, play.now)) {
    if (effect.type === 'send') play.told.push(effect);
    if (effect.type !== 'refuse') continue;
    const { peer } = effect;
    const gone = play.told.filter(({ to }) => to !== peer);
    play.told.splice(0, play.told.length, ...gone);
    if (isLiar(peer) || effect.reason === 'runFinished') continue;
    const times = (play.refusals.get(letterOf(peer)) ?? 0) + 1;
    play.refusals.set(letterOf(peer), times);
    join(play, `${letterOf(peer)}${times}`);
  }
}

/** Nobody has anything to say: the next deadline is there. */
function wait(play: Play): void {
  const { deadline } = play.run.decider;
  invariant(deadline !== null, `something is due in ${JSON.stringify(play.run.state.phase)}`);
  play.now = Math.max(play.now, deadline);
  happened(play, { type: 'deadlineReached' });
}

const say = (play: Play, peer: PeerId, message: DonorMessage): void =>
  happened(play, { type: 'donorSaid', peer, message });

/** What an honest donor says, or the liar where it keeps to the truth. */
function speak(play: Play, peer: PeerId, message: ServerMessage): void {
  const { run } = play;
  play.now += STEP_MS;
  const plan = message.type === 'warm' ? message.plan : play.plans.get(peer);
  if (!run.connected.has(peer)) return;
  const reply = (plan && answer(run.config, peer, plan, message)) ?? emptyAnswer(play, message);
  if (reply === null) return;
  const isOfStep = reply.type === 'report' || reply.type === 'evaluated';
  say(play, peer, isOfStep && !isLiar(peer) && play.epoch === run.state.epoch ? witnessed(play, peer, reply) : reply);
}

/** In a checked epoch everyone answers an evaluation. */
function emptyAnswer({ run }: Play, message: ServerMessage): EvaluatedMessage | null {
  const isChecked = planInForce(run.state)?.isChecked === true;
  if (message.type !== 'evaluate' || !isChecked) return null;
  return { type: 'evaluated', epoch: message.epoch, step: message.step, losses: [] };
}

/** Where what is no number goes through all: the victim got it from the liar, the others from the victim. */
function witnessed(
  play: Play,
  peer: PeerId,
  reply: ReportMessage | EvaluatedMessage,
): ReportMessage | EvaluatedMessage {
  const { run, victim } = play;
  const inForce = planInForce(run.state);
  const liar = inForce === null ? undefined : membersOf(inForce).find(isLiar);
  if (victim === null || !inForce || liar === undefined || !membersOf(inForce).includes(victim)) return reply;
  const from = peer === victim ? liar : victim;
  const unsound: UnsoundTensor = { kind: 'activation', stage: 0, index: 0, from };
  return { ...spoilt(reply), ...(inForce.isChecked ? { unsound } : {}) };
}

const spoilt = (said: ReportMessage | EvaluatedMessage): ReportMessage | EvaluatedMessage => {
  const losses = said.losses.map(({ microBatch }) => ({ microBatch, lossSum: null }));
  if (said.type === 'evaluated') return { ...said, losses };
  return { ...said, losses, shards: said.shards.map((shard) => ({ ...shard, sumSquares: 'NaN' })) };
};

function lie(play: Play, liar: PeerId, message: ServerMessage) {
  const { random, run } = play;
  play.now += STEP_MS;
  const plan = play.plans.get(liar);
  if (plan === undefined || message.type === 'warm') return speak(play, liar, message);
  if (!run.connected.has(liar)) return;
  const others = run.state.donors.flatMap(({ peer }) => (peer === liar ? [] : peer));
  const { epoch } = run.state;
  const honest = answer(run.config, liar, plan, message);
  if (random() < 0.2) {
    const detail = 'as it likes';
    const about = pick(random, others);
    return say(play, liar, { type: 'fault', epoch, reason: random() < 0.8 ? 'linkLost' : 'internal', about, detail });
  }
  if (honest === null) return;
  if (honest.type !== 'report' && honest.type !== 'evaluated') return say(play, liar, honest);
  if (random() < 0.3 && peers(plan).includes(liar)) return sendNoNumber(play, liar, honest, others);
  if (random() < 0.1) return; // it says nothing at all
  say(play, liar, hostile(play, honest, others));
}

/** Its own report says that all is well; the server sees what goes through it. */
function sendNoNumber(play: Play, liar: PeerId, honest: ReportMessage | EvaluatedMessage, others: readonly PeerId[]) {
  const { run } = play;
  const { epoch, relayed } = run.state;
  const reported = 'inForce' in run.state.phase && run.state.phase.name === 'training' ? run.state.phase.reports : [];
  const to = pick(play.random, others);
  const members = planInForce(run.state);
  // Whoever has reported before it sent that has seen nothing of it.
  if (reported.length > 0 || !members || !membersOf(members).includes(to)) return say(play, liar, honest);
  play.victim = to;
  play.epoch = epoch;
  if (relayed.some((pair) => pair.includes(liar) && pair.includes(to)))
    happened(play, { type: 'unsoundRelayed', epoch, from: liar, to });
  say(play, liar, honest);
}

function hostile(play: Play, honest: ReportMessage | EvaluatedMessage, others: readonly PeerId[]): DonorMessage {
  const { random } = play;
  const number = pick(random, [null, null, -1, -1e300, 0, 1e9, 1e308]);
  const losses = honest.losses.map((loss) => ({ ...loss, lossSum: number }));
  const claimed: UnsoundTensor = {
    ...{
      kind: pick(random, ['activation', 'values', 'norm'] as const),
      stage: below(random, 9),
      index: below(random, 9),
    },
    ...(random() < 0.5 ? { from: pick(random, [...others, peerId('nobody')]) } : {}),
  };
  const claim = random() < 0.5 ? { unsound: claimed } : {};
  if (honest.type === 'evaluated')
    return pick<DonorMessage>(random, [
      { ...honest, losses, ...claim },
      { ...honest, losses: honest.losses.slice(1) },
    ]);
  const sumSquares = pick(random, ['NaN', 'Infinity', 1e308, 1e30, 1e12, 0] as const);
  const shards = honest.shards.map((shard) => ({ ...shard, sumSquares }));
  return pick<DonorMessage>(random, [
    { ...honest, losses, ...claim },
    { ...honest, shards, ...claim },
    { ...honest, losses, shards, ...claim },
    { ...honest, losses: [...honest.losses, ...honest.losses] },
    { ...honest, shards: honest.shards.slice(1) },
    { ...honest, shards: honest.shards.map((shard) => ({ ...shard, digests: ['f'.repeat(22)] })) },
    { ...honest, bytesDirect: 2 ** 43, bytesRelayed: 2 ** 43 },
    { ...honest, spans: [{ action: '0F0', start: -1e12, end: 1e12 }] },
    { ...honest, spans: [{ action: '0F0', start: 1, end: 0 }] },
  ]);
}
