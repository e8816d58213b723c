/** Audits of a run with islands: whose lie is found out, by turns or by groups, leaves nothing behind. */
import { describe, expect, it } from 'vitest';
import { arrayOf, below, type PeerId, peerId, seededRandom } from '../base.ts';
import { turnAt } from '../islands/rounds.ts';
import { peers } from '../plan/plan.ts';
import { GroupedRun, groupedConfig } from '../testing/groupedRun.ts';
import { islandsOf, overlapping } from '../testing/islands.ts';
import type { DecisionConfig } from './events.ts';

const LIAR = peerId('b');
const DIFFERS = { result: 'differs', microBatch: 1, direction: 'B', evidence: 'it is off by 1 %' } as const;
const TERMS = { steps: 24, checkpointEverySteps: 4, expectedDonors: 4, audit: { share: 1, isBounded: false } };

/** Two islands, rounds of four steps. `groups`: 1, by turns. */
function configOf(groups: number, islands = islandsOf(2, 2)): DecisionConfig {
  const { run, planning } = groupedConfig({ ...TERMS, islands });
  return { run, planning: { ...planning, wishes: { ...planning.wishes, groups } } };
}

/** A commit as it stands: by whom, and which it was of all that ever were. */
interface Stood {
  readonly by: readonly PeerId[];
  readonly place: number;
}

/** From this step on it lies in all that it does; audits take as long as chance has it. */
function liesFrom(run: GroupedRun, step: number, seed: number) {
  const random = seededRandom(seed);
  const plans = new Map<number, readonly PeerId[]>();
  const stood = new Map<number, Stood>();
  const convicted: PeerId[] = [];
  let [place, newestLie] = [0, -1];
  const firstLies: number[] = [];
  run.chance = seed;
  run.perform = (effect) => {
    if (effect.type === 'storeEpoch') plans.set(effect.epoch, peers(effect.plan));
    if (effect.type === 'convicted') convicted.push(effect.peer);
    if (effect.type === 'storeCommit') {
      const by = plans.get(effect.record.plan) ?? [];
      stood.set(effect.record.step, { by, place: ++place });
      if (by.includes(LIAR) && effect.record.step >= step) {
        newestLie = place;
        firstLies.push(effect.record.step);
      }
    }
    return true;
  };
  run.join('a', 'b', 'c', 'd');
  for (let open = true; open; ) {
    const audits = run.audits;
    const audit = random() < 0.6 ? audits[below(random, audits.length)] : undefined;
    if (audit) run.judge(audit, audit.peer === LIAR && audit.step >= step ? DIFFERS : { result: 'agrees' });
    open = run.answerOne(random) || run.audits.length > 0;
  }
  return { convicted, stood, newestLie, firstLie: Math.min(...firstLies) };
}

describe('audits of islands', () => {
  it.each([
    ['by groups', 2, islandsOf(2, 2)],
    ['by turns', 1, islandsOf(2, 2)],
    ['by groups that meet beside their steps', 2, overlapping(islandsOf(2, 2))],
  ])('[AU9] convict who lies %s, and nobody else; nothing that came of it stands', (_, groups, islands) => {
    for (const seed of arrayOf(8, (one) => one)) {
      const run = new GroupedRun(configOf(groups, islands));
      const { train } = run.config.run;
      const { convicted, stood, newestLie, firstLie } = liesFrom(run, 3 + (seed % 9), seed);
      expect(run.isFinished).toBe(true);
      expect(convicted).toEqual([LIAR]);
      expect(run.lines.filter((line) => line.startsWith('refuse'))).toEqual(['refuse b convicted']);
      const lie = turnAt(train, firstLie);
      for (const [step, { by, place }] of stood) {
        const { round, island } = turnAt(train, step);
        const isAfter = round > lie.round || (island === lie.island && step >= firstLie);
        if (isAfter) expect([step, by.includes(LIAR), place > newestLie]).toEqual([step, false, true]);
      }
    }
  });

  it('[AU9] what both groups may yet undo is kept with a checkpoint', () => {
    const run = new GroupedRun(configOf(2));
    const kept: (number | undefined)[] = [];
    run.chance = 1;
    run.perform = (effect) => {
      if (effect.type === 'storeCheckpoint') kept.push(effect.undoableFrom);
      return true;
    };
    run.join('a', 'b', 'c', 'd');
    const isOf = (audited: PeerId): boolean => audited === peerId('c');
    while (kept.length < 2) {
      for (const audit of run.audits) if (!isOf(audit.peer)) run.judge(audit, { result: 'agrees' });
      if (!run.answerOne()) break;
    }
    // The second island's first step is count 2.
    expect(kept).toEqual([2, 2]);
  });
});
