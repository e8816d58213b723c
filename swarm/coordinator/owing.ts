/**
 * Whose part of a step is overdue, where all say that they wait for others: shown by what the server saw go by between
 * them. Each one's list is gone through as far as what went by to it lets it come; what it should have sent by then and did
 * not, it owes. Of ways that the server does not see, a donor's own word counts against it: what it does not say that it
 * waits for has come. Pure.
 */
import type { PeerId } from '../base.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Plan } from '../plan/plan.ts';
import type { Action, MicroAction } from '../schedule/action.ts';
import { forwardOnly, stepSchedule } from '../schedule/lower.ts';
import { policyOf } from '../schedule/ownOrder.ts';
import { isSend, turnsOf, turnText } from '../simulate/lineTurns.ts';
import { arrivalTensors, type Sizes } from '../ways/partners.ts';
import type { Passage, TensorName } from '../ways/passage.ts';
import { heldOutTensors, holderValues, inRound, replicaValues, stepTensors, turnTensor } from '../ways/tensors.ts';
import { passageText } from '../ways/wentBy.ts';
import { isPair } from './blame.ts';
import type { Pair, RelaySeen } from './events.ts';
import { fromPeers } from './newEpoch.ts';
import type { CoordinatorState, Evaluating, Preparing, Training } from './state.ts';

interface Watching {
  readonly state: CoordinatorState;
  readonly phase: Training | Preparing | Evaluating;
  readonly seen: RelaySeen;
  /** Who has not answered. */
  readonly open: readonly PeerId[];
}

const STREAM: readonly TensorName['kind'][] = ['activation', 'gradient', 'beginning'];

/** Of a peer's list: what has to come before it goes on, and what it sends then. */
interface Station {
  readonly step: number | 'arrival';
  readonly needs: readonly Passage[];
  readonly sends: readonly Passage[];
}

/** Who of these owes its part; nobody where nothing is shown. */
export function owing(watching: Watching, among: readonly PeerId[]): PeerId[] {
  const { state, phase, seen } = watching;
  const { plan, filling } = phase.inForce;
  // What is gathered, copied beside the step or met with comes in an order of its own.
  if (filling !== null || state.config.train.islands || plan.stages.some(({ gathered }) => gathered)) return [];
  // Its connection takes nothing: whoever sends it something waits for that.
  const deaf = among.filter((peer) => seen.full.some(([, to]) => to === peer));
  if (deaf.length > 0) return deaf;
  const stations = stationsIn(state, phase);
  return among.filter((peer) => owes(watching, peer, stations(peer)));
}

/** Who sends whom something. */
export const waysOf = (state: CoordinatorState, phase: Training | Preparing | Evaluating): Pair[] =>
  (phase.name === 'preparing' ? arriving(state, phase) : inStep(state, phase)).map(({ from, to }): Pair => [from, to]);

function owes({ phase, seen, open }: Watching, peer: PeerId, stations: readonly Station[]): boolean {
  const waits = phase.progress.find((one) => one.peer === peer)?.at.waitsFor ?? [];
  const isSeen = (other: PeerId): boolean => isPair(phase.inForce.watched, peer, other);
  const whole = new Set(seen.whole);
  let isOwing = false;
  for (const { step, needs, sends } of stations) {
    const wentBy = ({ from, to, tensor }: Passage): boolean => whole.has(passageText(step, from, to, tensor));
    if (needs.some((one) => (isSeen(one.from) ? !wentBy(one) : waits.includes(one.from)))) return isOwing;
    isOwing ||= sends.some((one) => isSeen(one.to) && !wentBy(one));
  }
  // Its answer, which may wait until somebody has taken what it sent.
  return isOwing || (waits.every(isSeen) && open.includes(peer));
}

function stationsIn(state: CoordinatorState, phase: Watching['phase']): (peer: PeerId) => Station[] {
  if (phase.name === 'training') return stationsOf(state, phase);
  return phase.name === 'evaluating' ? roundsOf(state, phase) : arrivalsOf(state, phase);
}

const sizesIn = ({ config }: CoordinatorState): Sizes => ({
  ...{ model: acceptedModel(config), sequence: config.batch.sequence, wire: config.wire },
  ...{ asked: config.compute ?? 'f32', islands: config.train.islands },
});

function inStep(state: CoordinatorState, { inForce }: Training | Evaluating): Passage[] {
  const sizes = sizesIn(state);
  return stepTensors(sizes.model, inForce.plan, sizes);
}

function arriving(state: CoordinatorState, { inForce, source }: Preparing): Passage[] {
  const told = source.from === 'peers' ? fromPeers(state, source.inForce) : source;
  return arrivalTensors(sizesIn(state), inForce.plan, told);
}

const sent = (peer: PeerId, those: readonly Passage[]) => those.filter(({ from }) => from === peer);
const received = (peer: PeerId, those: readonly Passage[]) => those.filter(({ to }) => to === peer);

/** What each gives waits for nothing. */
function arrivalsOf(state: CoordinatorState, phase: Preparing): (peer: PeerId) => Station[] {
  const all = arriving(state, phase);
  return (peer) => [
    { step: 'arrival', needs: [], sends: sent(peer, all) },
    { step: 'arrival', needs: received(peer, all), sends: [] },
  ];
}

/** Of an evaluation: forwards, one round after another. */
function roundsOf(state: CoordinatorState, { inForce: { plan } }: Evaluating): (peer: PeerId) => Station[] {
  const { config, committedSteps: step } = state;
  const sizes = sizesIn(state);
  const all = heldOutTensors(sizes.model, plan, sizes);
  const lists = forwardOnly(plan);
  const rounds = Array.from(
    { length: Math.ceil((config.evaluation?.windows ?? 0) / config.batch.samples) },
    (_, i) => i,
  );
  return (peer) =>
    rounds.flatMap((round) =>
      (lists.get(peer) ?? []).flatMap((action): Station[] => {
        if (action.op !== 'RECV_F' && action.op !== 'SEND_F') return [];
        const moved = all
          .filter((one) => isOf(action, peer, one))
          .map((one) => ({ ...one, tensor: inRound(one.tensor, round) }));
        return [action.op === 'RECV_F' ? { step, needs: moved, sends: [] } : { step, needs: [], sends: moved }];
      }),
    );
}

function stationsOf(state: CoordinatorState, phase: Training): (peer: PeerId) => Station[] {
  const { step, inForce } = phase;
  const { plan } = inForce;
  const { model } = sizesIn(state);
  const all = inStep(state, phase);
  // The step before was done under this epoch too: then its values are on their way in it.
  const hasCompleted = state.lastCommit?.epoch === inForce.epoch;
  const [held, copied] = hasCompleted ? [holderValues(model, plan), replicaValues(model, plan)] : [[], []];
  const lists = stepSchedule(plan);
  return (peer) => {
    const own = all.filter(({ from, to }) => from === peer || to === peer);
    const listed = (lists.get(peer) ?? []).flatMap((action): Station[] => {
      const moved = own.filter((one) => isOf(action, peer, one));
      const turn = isSend(action) ? turnOf(plan, peer, action, own) : null;
      if (turn !== null)
        return [
          { step, needs: turn.awaited, sends: [] },
          { step, needs: [], sends: [...moved, ...turn.passedOn] },
        ];
      const isComing = action.op === 'RECV_F' || action.op === 'RECV_B' || action.op === 'REPORT';
      return isComing ? [{ step, needs: moved, sends: [] }] : [{ step, needs: [], sends: moved }];
    });
    // Where messages decide on the order any of them may be needed first.
    const stream = received(peer, own).filter(({ tensor }) => STREAM.includes(tensor.kind));
    const first = policyOf(plan) === null ? [] : [{ step, needs: stream, sends: [] }];
    return [
      { step: step - 1, needs: [], sends: sent(peer, held) },
      { step: step - 1, needs: received(peer, held), sends: sent(peer, copied) },
      ...first,
      ...listed,
      { step: step - 1, needs: received(peer, copied), sends: [] },
    ];
  };
}

/** Of a message over a shared line: the word that it waits for, and the one that is said after it. */
function turnOf(plan: Plan, peer: PeerId, action: MicroAction, own: readonly Passage[]) {
  const turn = turnsOf(plan, peer).get(turnText(action));
  if (turn === undefined) return null;
  const named = (message: MicroAction | undefined) =>
    own.filter(({ tensor }) => {
      const word = message && turnTensor(message);
      return tensor.kind === 'turn' && word !== undefined && tensorText(tensor) === tensorText(word);
    });
  return {
    awaited: received(peer, named(action)),
    passedOn: sent(peer, named(turn.next?.action)),
  };
}

const tensorText = ({ stage, index, range: [from] }: TensorName): string => `${stage}/${index}/${from}`;

function isOf(action: Action, peer: PeerId, { from, to, tensor }: Passage): boolean {
  const isNamed = (kind: TensorName['kind'], stage: number): boolean =>
    (tensor.kind === kind || (kind === 'activation' && tensor.kind === 'heldOut')) &&
    tensor.stage === stage &&
    (!('microBatch' in action) || tensor.index === action.microBatch);
  switch (action.op) {
    case 'RECV_F':
      return to === peer && isNamed('activation', action.stage);
    case 'RECV_B':
      return to === peer && isNamed('gradient', action.stage);
    case 'SEND_F':
      return from === peer && isNamed('activation', action.stage + 1);
    case 'SEND_B':
      return from === peer && isNamed('gradient', action.stage - 1);
    case 'REDUCE':
      return from === peer && isNamed('slice', action.stage);
    case 'REPORT':
      return to === peer && tensor.kind === 'slice';
    default:
      return false;
  }
}
