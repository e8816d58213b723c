/** What this peer can do for a plan before it begins: compile, fetch tokens, open links. It makes no role and moves no state. */
import { isRecorded, laterStep, turnAt } from '../../../swarm/islands/rounds.ts';
import type { ServerMessage } from '../../../swarm/messages/messages.ts';
import { planPartners } from '../../../swarm/ways/partners.ts';
import type { JoinedRun } from './joinedRun.ts';
import { warmRole } from './role.ts';
import type { Ways } from './sessionParts.ts';
import { samplesRead } from './tokensAhead.ts';

type WarmMessage = Extract<ServerMessage, { type: 'warm' }>;

export async function warmUp(
  { plan, epoch, step }: WarmMessage,
  { peer, sizes, engine, facts: { train }, tokens }: JoinedRun,
  ways: Pick<Ways, 'openAhead'>,
): Promise<void> {
  const links = ways.openAhead([...(planPartners(sizes, plan).get(peer) ?? [])], epoch);
  const next = isRecorded(train) ? null : turnAt(train, laterStep(train, step, plan.islands) ?? step);
  // Read past those that are expected, which belong to the plan in force.
  const samples = next === null ? [] : samplesRead(plan, peer);
  const first = (next?.number ?? 0) * train.globalBatchSize;
  const read = Promise.all(samples.map((sample) => tokens.read(first, [sample, sample + 1])));
  await Promise.all([links, read, warmRole(engine, train, plan, peer)]);
}
