/** A run that plans itself, for tests: it takes every plan at once, searches answer at once, donors give everything. */

import { clusterProblem, type PlanningConfig } from '../autoplan/knownDonors.ts';
import type { PeerProfile } from '../autoplan/peerProfile.ts';
import { beginReplanning, replan } from '../autoplan/replanner.ts';
import type { ReplannerEffect, ReplannerEvent } from '../autoplan/replannerState.ts';
import { invariant, type PeerId, type Result, totalOf } from '../base.ts';
import type { PlanAnswer } from '../coordinator/events.ts';
import { NO_LIMITS } from '../limits.ts';
import type { PeerMessage, ReportMessage } from '../messages/messages.ts';
import type { LinkReport, Profile } from '../messages/profile.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { type ClusterPlan, planCluster } from '../planner/clusterPlan.ts';

export const CONFIG: PlanningConfig = {
  model: { model_type: 'gpt2', n_layer: 4, n_head: 4, n_embd: 64, n_positions: 128, vocab_size: 256 },
  batch: { samples: 16, sequence: 128 },
  // Copies change what a plan takes: where they are meant a test says so.
  wishes: { auto: true, replicas: 0 },
};
const SEARCH_WORK = 1_500;

/** A layer takes `seconds` for a sample. */
export const profile = (seconds: number): Profile => ({
  layers: [
    { samples: 1, forwardSeconds: seconds, backwardSeconds: 2 * seconds },
    { samples: 2, forwardSeconds: 2 * seconds, backwardSeconds: 4 * seconds },
  ],
  memoryBytes: 1e9,
  checkedKernels: 0,
});

export class PlannedRun {
  state = beginReplanning(CONFIG);
  readonly offer: PeerId[] = [];
  readonly proposals: (PlanAnswer & { readonly answer: 'plan' | 'stays' })[] = [];
  readonly records: Extract<ReplannerEffect, { type: 'recordPlan' }>[] = [];
  readonly probes: (readonly [PeerId, PeerId])[] = [];
  /** Who was told its number in the queue. */
  readonly queue: (readonly [PeerId, number | undefined])[] = [];
  readonly searches: Extract<ReplannerEffect, { type: 'search' }>[] = [];
  /** What the operator reads. */
  readonly logs: string[] = [];
  plan: Plan | null = null;
  epoch = 0;
  stepSeconds = 0;
  nowMs = 0;
  asks = 0;
  /** Whether what is asked for is searched. */
  doesSearch = true;

  /** What donors left on their last visits. */
  readonly saved: Map<string, PeerProfile>;

  constructor(saved = new Map<string, PeerProfile>()) {
    this.saved = saved;
  }

  tell(event: ReplannerEvent): void {
    const view = { offer: [...this.offer], plan: this.plan, epoch: this.epoch };
    const [state, effects] = replan(this.state, event, this.nowMs, view);
    this.state = state;
    for (const effect of effects) this.#perform(effect);
  }

  #perform(effect: ReplannerEffect): void {
    if (effect.type === 'recordPlan') this.records.push(effect);
    if (effect.type === 'keepProfile') this.saved.set(effect.rememberedAs, effect.profile);
    if (effect.type === 'search') this.searches.push(effect);
    if (effect.type === 'send' && effect.message.type === 'probe') this.probes.push([effect.to, effect.message.peer]);
    if (effect.type === 'send' && effect.message.type === 'standby') this.queue.push([effect.to, effect.message.place]);
    if (effect.type === 'log' && effect.level === 'info') this.logs.push(effect.text);
    if (effect.type !== 'planned') return;
    const { answer } = effect;
    invariant(answer.answer !== 'none', 'there is a plan');
    this.proposals.push(answer);
    if (answer.answer === 'plan') this.begin(answer.plan, answer.answer === 'plan' ? answer.reason : '');
  }

  /** Until nothing is searched for any more. */
  settle(): void {
    this.tell({ type: 'settled' });
    while (this.doesSearch) {
      const [next] = this.searches.splice(0, 1);
      if (next === undefined) return;
      this.tell({ type: 'searched', search: next.search, found: found(next) });
      this.tell({ type: 'settled' });
    }
  }

  said(peer: PeerId, message: PeerMessage): void {
    this.tell({ type: 'donorSaid', peer, message });
  }

  /** Whose they are may be others' too. */
  readonly lines = new Map<PeerId, string>();
  /** Steps that another server committed with them. */
  readonly stepsBefore = new Map<PeerId, number>();
  /** To the server and back. */
  readonly roundTripMs = new Map<PeerId, number>();

  joins(peer: PeerId, measured: Profile, limits = NO_LIMITS, rememberedAs: string | null = null, isOwn = false): void {
    this.offer.push(peer);
    const remembered = this.saved.get(rememberedAs ?? '') ?? null;
    const line = this.lines.get(peer);
    this.tell({
      ...{ type: 'donorJoined', peer, limits, profile: measured, rememberedAs, remembered },
      ...{ hasHalves: false, address: peer, isOwn, ...(line !== undefined && { line }) },
      roundTripMs: this.roundTripMs.get(peer) ?? null,
      ...(this.stepsBefore.has(peer) && { stepsSeen: this.stepsBefore.get(peer) ?? 0 }),
    });
    if (this.plan === null) this.want('now');
    this.settle();
  }

  want(purpose: 'now' | 'departure' | 'arrival'): void {
    const offer = this.offer.map((peer) => ({ peer, memoryBytes: null, isNeeded: false }));
    this.tell({ type: 'planWanted', ask: this.asks++, purpose, offer, inForce: this.plan });
  }

  begin(plan: Plan, reason: string): void {
    this.plan = plan;
    this.epoch++;
    this.tell({
      type: 'doing',
      effect: { type: 'storeEpoch', epoch: this.epoch, generation: 0, plan, reason, relayed: [] },
    });
  }

  /** One step: each member's spans take `factor(peer)` of what a sample and layer takes by `seconds(peer)`. */
  step(index: number, seconds: (peer: PeerId) => number, links: readonly LinkReport[] = []): void {
    const plan = this.plan;
    if (!plan) throw new Error('no plan');
    for (const peer of peers(plan)) {
      let at = 0;
      const spans: ReportMessage['spans'] = [];
      for (const [stage, { layers, members }] of plan.stages.entries())
        for (const id of members.find((member) => member.peer === peer)?.microBatches ?? []) {
          const [from, to] = plan.microBatches.find((microBatch) => microBatch.id === id)?.samples ?? [0, 0];
          const one = seconds(peer) * (to - from) * (layers[1] - layers[0]);
          for (const [op, factor] of [
            ['F', 1],
            ['B', 2],
          ] as const) {
            spans.push({ action: `${stage}${op}${id}`, start: at, end: at + one * factor });
            at += one * factor;
          }
        }
      this.said(peer, {
        ...{ type: 'report', epoch: this.epoch, step: index, losses: [], shards: [], bytesDirect: 0, bytesRelayed: 0 },
        ...{ spans, links: [...links] },
      });
    }
    const record = {
      ...{ step: index, seconds: this.stepSeconds, loss: 1, gradientNorm: 1, learningRate: 1, tokens: 1, donors: 1 },
      ...{ stages: 1, microBatches: 1, plan: this.epoch, bytesDirect: 0, bytesRelayed: 0 },
    };
    this.tell({
      type: 'doing',
      effect: { type: 'storeCommit', record, ledger: [], applied: { clipScale: 1, lossScale: null, stale: [] } },
    });
  }
}

export const found = ({ problem }: Extract<ReplannerEffect, { type: 'search' }>): Result<ClusterPlan> =>
  planCluster(clusterProblem(CONFIG, problem), ({ work }) => work < SEARCH_WORK);

/** Layers times samples. */
export const samplesOf = (plan: Plan | null, peer: PeerId): number =>
  totalOf(
    plan?.stages ?? [],
    ({ layers: [from, to], members }) => (to - from) * (members.find((member) => member.peer === peer)?.samples ?? 0),
  );
