import { expect, test } from 'vitest';
import { invariant, type PeerId, peerId } from '../base.ts';
import { NO_LIMITS } from '../limits.ts';
import type { Profile } from '../messages/profile.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { begin, decide, nextDecision, planningOf, wholeRun } from './decide.ts';
import type { DecisionConfig, DecisionEffect, DecisionEvent } from './events.ts';

const [A, B] = [peerId('a'), peerId('b')];
const SECOND: Profile = {
  layers: [{ samples: 1, forwardSeconds: 1, backwardSeconds: 2 }],
  memoryBytes: 1e9,
  checkedKernels: 0,
};

const { config } = rehearsalTerms({ layers: 2, capacity: 8 });
const planning: DecisionConfig['planning'] = {
  model: { model_type: 'gpt2', n_layer: 2, n_head: 1, n_embd: 4, n_positions: 8, vocab_size: 8 },
  batch: config.batch,
  wishes: {},
};
const START = {
  ...{ lastCommit: null, applied: null, plans: [], credit: [], unsaved: [] },
  ...{ generation: 0, epoch: 0, committedSteps: 0, newestCheckpointStep: 0, savedLossScale: null },
  ...{ operatorPaused: false, evaluatedSteps: null, evaluationLoss: null, loss: null },
};
const joins = (peer: PeerId): DecisionEvent => ({
  ...{ type: 'donorJoined', peer, limits: NO_LIMITS, profile: SECOND, rememberedAs: null, remembered: null },
  ...{ address: 'here', isOwn: false },
  adapter: { vendor: '', architecture: '', description: '', software: false, browser: '' },
});

function deciding(auto: boolean) {
  let state = begin({ run: config, planning: auto ? { ...planning, wishes: { auto } } : planning }, START);
  const told = (event: DecisionEvent, now = 0): DecisionEffect[] => {
    const [next, effects] = decide(state, event, now);
    state = next;
    return effects;
  };
  return { told, state: () => state, whole: () => wholeRun(state) };
}
const types = (effects: readonly DecisionEffect[]): string[] => effects.map(({ type }) => type);

test('what the wishes decide is answered within the same event, and the page is told once', () => {
  const { told, state, whole } = deciding(false);
  const effects = told(joins(A));
  expect(types(effects)).toEqual(['log', 'storeEpoch', 'log', 'send', 'log', 'recordPlan', 'publish']);
  expect(whole().coordinator.phase.name).toBe('preparing');
  expect(planningOf(state())).toMatchObject({ epoch: 1, reason: 'enough donors are here', measuredSeconds: null });
});

test('with auto a search is asked for; its outcome is an event, and the deadline is the nearest one of both', () => {
  const { told, state, whole } = deciding(true);
  const [search] = told(joins(A), 5).filter(({ type }) => type === 'search');
  expect(search).toMatchObject({ search: 0, budget: 'atOnce' });
  expect(whole().coordinator.phase.name).toBe('planning');
  expect(nextDecision(state())).toBe(10_005);
  const plan = equalSplit(acceptedModel(planning), config.batch.samples, [A]);
  const found = { ok: true, value: { plan, reasons: [], idle: [] } } as const;
  expect(types(told({ type: 'searched', search: 7, found }))).toEqual([]);
  expect(types(told({ type: 'searched', search: 0, found }, 6))).toContain('storeEpoch');
  expect(nextDecision(state())).toBe(60_006);
});

test('a run that begins again from its store still knows its donors', () => {
  const { told, whole } = deciding(false);
  told(joins(A));
  told(joins(B));
  const known = whole().replanner.donors;
  const { asks } = whole().coordinator;
  expect(asks).toBeGreaterThan(0);
  told({ type: 'restarted', start: { ...START, epoch: 2 } });
  expect(whole().coordinator.donors).toEqual([]);
  // Else a late answer could be taken for one to a question of now.
  expect(whole().coordinator.asks).toBe(asks);
  told(joins(B));
  expect(whole().coordinator.epoch).toBe(3);
  expect(whole().replanner.donors.map(({ profile }) => profile)).toEqual(known.map(({ profile }) => profile));
  invariant(known.length === 2, 'both were known');
});
