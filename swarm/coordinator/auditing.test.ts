/** Audits: who is drawn, when one is over, and what follows from it. */
import { describe, expect, it } from 'vitest';
import { success } from '../base.ts';
import type { ReportMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { answer } from '../testing/honestDonor.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { ringReplicas } from '../testing/ringReplicas.ts';
import { type Script, script } from '../testing/script.ts';
import { evidenceOf } from '../ways/evidence.ts';
import { undoableFrom } from './audits.ts';

type Part = Parameters<typeof rehearsalTerms>[0];

/** Three donors with a copy of everything; with two layers a has stage 0, b stage 1, and c copies alone. */
function audited(part: Part = {}): Script {
  const terms = rehearsalTerms({ audit: { share: 1, isBounded: false }, steps: 4, layers: 3, ...part });
  const makePlan: typeof terms.makePlan = (offer, caps) => {
    const plan = terms.makePlan(offer, caps);
    return plan.ok ? success(ringReplicas(plan.value, 1)) : plan;
  };
  const swarm = script({}, { ...terms, makePlan });
  swarm.chance = 7;
  return swarm;
}

const pending = (swarm: Script) => swarm.run.state.audits?.pending ?? [];
const counts = (swarm: Script) => swarm.run.state.audits?.counts;
/** Whom the audits under way are of, at which step. */
const auditedNow = (swarm: Script): string[] =>
  pending(swarm)
    .map(({ peer, step }) => `${peer} ${step}`)
    .sort();

function over(swarm: Script, audit: number, found: Parameters<Script['audited']>[1] = { result: 'agrees' }): void {
  for (const name of pending(swarm).find((one) => one.audit === audit)?.waitingFor ?? []) swarm.evidenceIn(audit, name);
  swarm.audited(audit, found);
}

const DIFFERS = {
  result: 'differs',
  microBatch: 1,
  direction: 'B',
  evidence: 'its input gradient is off by 1 %',
} as const;

/** One step is committed, the next one is not. */
function oneStep(part: Part = {}): Script {
  const swarm = audited(part);
  swarm.join('a', 'b', 'c');
  swarm.settle('* report');
  for (const name of ['a', 'b', 'c']) report(swarm, name);
  return swarm;
}

function report(swarm: Script, name: string, change: (honest: ReportMessage) => ReportMessage = (one) => one): void {
  const { config, state, store } = swarm.run;
  const start = { type: 'start', epoch: state.epoch, step: state.committedSteps } as const;
  const honest = store.plan && answer(config, swarm.peer(name), store.plan, start);
  if (honest?.type === 'report') swarm.say(name, change(honest));
}

describe('audits', () => {
  it('[AU1] are of members who commit to what they send and get; other numbers of digests are a fault', () => {
    const swarm = audited({ expectedDonors: 3 });
    swarm.join('a', 'b', 'c');
    swarm.settle('* report');
    swarm.trace();
    report(swarm, 'a', ({ committed: _, ...honest }) => honest);
    expect(swarm.logs().join()).toContain('the report commits to 0 tensors');
  });

  it('[AU2] draw all of a member’s first ten items, and by chance from then on', () => {
    const swarm = oneStep({ audit: { share: 1e-9, isBounded: false } });
    expect(auditedNow(swarm)).toEqual(['a 0', 'b 0', 'c 0']); // six items each
    for (const { audit } of pending(swarm)) over(swarm, audit);
    for (const name of ['a', 'b', 'c']) report(swarm, name);
    expect(auditedNow(swarm)).toEqual(['a 1', 'b 1', 'c 1']);
    for (const name of ['a', 'b', 'c']) report(swarm, name);
    expect(auditedNow(swarm)).toEqual(['a 1', 'b 1', 'c 1']); // twelve are done
  });

  it('[AU3] need the member’s tensors, its neighbours’, and the values of the primaries', () => {
    const swarm = oneStep();
    const { config, store } = swarm.run;
    if (!store.plan) throw new Error('no plan');
    const size = { sequence: config.batch.sequence, wire: config.wire };
    const pieces = evidenceOf(acceptedModel(config), store.plan, size, { stage: 1, peer: swarm.peer('b') });
    const from = (name: string): string[] => pieces.flatMap((one) => (one.from === name ? one.tensor.kind : []));
    expect([...new Set(from('a'))]).toEqual(['activation']);
    expect([...new Set(from('c'))]).toEqual(['gradient']);
    expect([...new Set(from('b'))]).toEqual(['gradient', 'activation', 'slice', 'values']);
  });

  it('[AU4] are of nobody whose words differ from those of the other end', () => {
    const swarm = audited();
    swarm.join('a', 'b', 'c');
    swarm.settle('* report');
    report(swarm, 'a', (honest) => ({
      ...honest,
      committed: honest.committed?.map((one) => one.replace(/^0_activation/, '9_activation')),
    }));
    for (const name of ['b', 'c']) report(swarm, name);
    expect(auditedNow(swarm)).toEqual(['c 0']);
    expect(counts(swarm)).toMatchObject({ void: 2 });
    expect(swarm.run.state.donors).toHaveLength(3);
  });

  it('[AU5] cost a tenth of what steps move where nobody said how many there are to be', () => {
    const swarm = oneStep({ audit: { share: 1, isBounded: true } });
    expect(pending(swarm)).toEqual([]);
    expect(counts(swarm)).toMatchObject({ notReached: 3 });
  });

  it('[AU6] come to nothing where a donor goes, who stays and does not deliver is let go, and who delivers something else is refused', () => {
    const swarm = oneStep({ steps: 9 });
    const [first, second] = pending(swarm);
    if (!first || !second) throw new Error('two are under way');
    over(swarm, first.audit, { result: 'broken', peer: swarm.peer('a') });
    expect(swarm.trace()).toContain('refuse a faulty');
    expect(pending(swarm).every(({ waitingFor }) => !waitingFor.includes(swarm.peer('a')))).toBe(true);
    const late = oneStep({ steps: 9 });
    late.trace();
    late.pass(10 ** 7);
    late.tick();
    expect(late.trace().filter((line) => line.startsWith('refuse'))).toContain('refuse a tooLate');
    expect(pending(late)).toEqual([]);
  });

  it('[AU7] convict: the donor is out, and what it did goes back to the step that it may have begun at', () => {
    const swarm = oneStep({ steps: 9, audit: { share: 0.5, isBounded: false } });
    for (let step = 1; step < 4; step++) for (const name of ['a', 'b', 'c']) report(swarm, name);
    const last = pending(swarm)
      .filter(({ peer }) => peer === 'b')
      .at(-1);
    if (last === undefined) throw new Error('b is audited');
    const { audits } = swarm.run.state;
    expect(audits && undoableFrom(audits, 0.5)).toBe(0); // the first step's audits are under way
    const before = pending(swarm).filter(({ peer, step }) => peer === 'b' && step < last.step);
    for (const { audit } of before) over(swarm, audit, { result: 'void', reason: 'its thread ended' });
    swarm.trace();
    over(swarm, last.audit, DIFFERS);
    // Ten items, of six a step: the one before is undone too.
    expect(swarm.trace().slice(0, 2)).toEqual([
      `convicted b, from step ${last.step - 1}`,
      'refuse b convicted (proven)',
    ]);
    swarm.sendBack(0, { name: 'b', tokens: 0 });
    expect(pending(swarm)).toEqual([]);
    expect(swarm.run.state.donors.map(({ peer }) => String(peer))).toEqual(['a', 'c']);
  });

  it('[AU7] where older ones of the same donor are under way, it goes back before these', () => {
    const swarm = oneStep({ steps: 9, audit: { share: 1, isBounded: false } });
    for (let step = 1; step < 4; step++) for (const name of ['a', 'b', 'c']) report(swarm, name);
    const own = pending(swarm).filter(({ peer }) => peer === 'b');
    swarm.trace();
    over(swarm, own.at(-1)?.audit ?? -1, DIFFERS);
    expect(swarm.trace()[0]).toBe('convicted b, from step 0');
    expect(counts(swarm)).toMatchObject({ convicted: 1, undone: 11, void: 0 });
  });

  it('[AU7] an audit that agreed leaves less to undo', () => {
    const swarm = oneStep({ steps: 9, audit: { share: 0.5, isBounded: false } });
    for (const { audit } of pending(swarm)) over(swarm, audit);
    for (const name of ['a', 'b', 'c']) report(swarm, name);
    const last = pending(swarm).find(({ peer }) => peer === 'b');
    if (last === undefined) throw new Error('b is audited');
    const { audits } = swarm.run.state;
    expect(audits && undoableFrom(audits, 0.5)).toBe(1);
    swarm.trace();
    over(swarm, last.audit, DIFFERS);
    expect(swarm.trace()[0]).toBe('convicted b, from step 1');
  });

  it('[AU8] are over before a run is finished', () => {
    const swarm = audited({ steps: 1 });
    swarm.join('a', 'b', 'c');
    swarm.settle();
    expect(swarm.run.state.phase).toMatchObject({ name: 'holding', awaits: 'audits' });
    for (const { audit } of pending(swarm)) over(swarm, audit);
    expect(swarm.run.state.phase.name).toBe('finished');
    expect(counts(swarm)).toMatchObject({ agreed: 3, void: 0 });
  });

  it('[AU6] are void after a restart of the server', () => {
    const swarm = oneStep();
    expect(pending(swarm)).toHaveLength(3);
    swarm.restart();
    expect(pending(swarm)).toEqual([]);
  });
});
