/** What donors say of themselves, and what it changes: what is known of them, and whether a better plan is looked for. */
import { type PeerId, rounded } from '../base.ts';
import type { PeerMessage, ProbedMessage, ReportMessage } from '../messages/messages.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import {
  type Admitted,
  begunAnew,
  type KnownDonor,
  knownDonor,
  profileNow,
  withLinks,
  withWork,
} from './knownDonors.ts';
import { knownLinks } from './lines.ts';
import { withTried } from './linkSample.ts';
import {
  addCause,
  change,
  changeDonor,
  changeDonors,
  donorOf,
  isAuto,
  type Replanning,
  suggestDeferredReplan,
  suggestReplan,
} from './replanning.ts';

export function donorJoined(replanning: Replanning, admitted: Admitted) {
  // The run begins again from its store, and who is still there joins anew.
  if (donorOf(replanning, admitted.peer)) return;
  const { config, donors } = replanning.state;
  change(replanning, { donors: [...donors, knownDonor(config, admitted, replanning.nowMs)] });
  addCause(replanning, { reason: `${admitted.peer} joins`, by: null });
  if (replanning.run.plan !== null && isAuto(replanning)) tellPlace(replanning, admitted.peer, replanning.run.plan);
}

/** A search takes a while, and others who come have it begun anew. */
function tellPlace({ state, effects }: Replanning, peer: PeerId, plan: Plan) {
  const members = new Set(peersOf(plan));
  const place = state.donors.filter((donor) => !members.has(donor.peer)).length;
  effects.push({ type: 'send', to: peer, message: { type: 'standby', state: 'spare', why: 'queued', place } });
}

export function donorGone(replanning: Replanning, peer: PeerId) {
  const donor = donorOf(replanning, peer);
  if (donor === undefined) return;
  keepProfiles(replanning, [donor]);
  if (replanning.state.suspicion?.peer === peer) change(replanning, { suspicion: null });
  const others = replanning.state.donors.filter((one) => one !== donor);
  const isOfIt = (link: { readonly peer: PeerId }): boolean => link.peer === peer;
  change(replanning, {
    // Of a thousand donors few know the one who goes.
    donors: others.map((one) =>
      one.links.some(isOfIt) || one.tried.some(isOfIt)
        ? { ...one, links: one.links.filter((link) => !isOfIt(link)), tried: one.tried.filter((link) => !isOfIt(link)) }
        : one,
    ),
  });
  addCause(replanning, { reason: `${peer} is gone`, by: null });
}

/** For their next visit, where the run said more of them than their admission. What others say of a line is not kept. */
export function keepProfiles({ state, effects }: Replanning, donors: readonly KnownDonor[]) {
  const kept = donors.flatMap((donor) => {
    const { peer, rememberedAs, line, measuredWith } = donor;
    const profile = profileNow(state.config, donor);
    // A line is kept whole, whoever shared it.
    const parts = line === null ? 1 : measuredWith;
    return rememberedAs !== null && profile.ratios.length > 0 ? { peer, rememberedAs, profile, parts } : [];
  });
  if (kept.length === 0) return;
  const { lines } = knownLinks(
    state.donors.map(({ peer }) => peer),
    new Map(state.donors.map((donor) => [donor.peer, donor])),
  );
  for (const { peer, rememberedAs, profile, parts } of kept) {
    const { upload = null, download = null } = lines.get(peer)?.own ?? {};
    const known = {
      ...profile,
      ...(upload !== null && { uploadBytesPerSecond: upload * parts }),
      ...(download !== null && { downloadBytesPerSecond: download * parts }),
    };
    effects.push({ type: 'keepProfile', rememberedAs, profile: known });
  }
}

export function donorSaid(replanning: Replanning, peer: PeerId, message: PeerMessage) {
  suggestDeferredReplan(replanning, peer);
  const donor = donorOf(replanning, peer);
  if (donor === undefined) return;
  switch (message.type) {
    case 'limits': {
      changeDonor(replanning, peer, { ...begunAnew(replanning.state.config, donor), limits: message.limits });
      return suggestReplan(replanning, peer, `${peer} has other limits`);
    }
    case 'report':
      return reported(replanning, peer, message);
    case 'probed':
      return probed(replanning, donor, message);
    case 'resume':
      return suggestReplan(replanning, peer, `${peer} is back from its pause`);
    case 'pause':
    case 'leave':
      return addCause(replanning, { reason: `${peer} ${message.type === 'pause' ? 'pauses' : 'leaves'}`, by: null });
    default:
      return;
  }
}

/** Members of the plan who send at once over this one's line, itself among them: where they take turns it alone. */
function sharersIn(donors: readonly KnownDonor[], plan: Plan, { peer, line }: KnownDonor): number {
  if (plan.lines?.some((one) => one.includes(peer))) return 1;
  const members = new Set(peersOf(plan));
  return (
    1 + donors.filter((one) => line !== null && one.line === line && one.peer !== peer && members.has(one.peer)).length
  );
}

function reported(replanning: Replanning, peer: PeerId, message: ReportMessage) {
  const { epoch, spans, links = [], uploadBytesPerSecond, bytesDirect, bytesRelayed } = message;
  const { state, run, nowMs } = replanning;
  const here = new Set(state.donors.map((donor) => donor.peer));
  const known = links.filter((link) => here.has(link.peer));
  const others = new Set(known.map((link) => link.peer));
  const isOfPlan = run.plan !== null && epoch === state.appraisal?.epoch;
  let drift: number | null = null;
  changeDonors(replanning, (donor) => {
    if (donor.peer !== peer)
      return others.has(donor.peer) ? { ...donor, tried: withTried(donor.tried, peer, nowMs) } : donor;
    const tried = known.reduce((all, link) => withTried(all, link.peer, nowMs), donor.tried);
    const upload = uploadBytesPerSecond ?? donor.uploadBytesPerSecond;
    const sentBytes = bytesDirect + bytesRelayed;
    const told = withLinks({ ...donor, tried, sentBytes, uploadBytesPerSecond: upload }, known);
    if (!isOfPlan || run.plan === null) return told;
    const measuredWith = known.length === 0 ? donor.measuredWith : sharersIn(state.donors, run.plan, donor);
    const [worked, factor] = withWork(state.config, { ...told, measuredWith }, run.plan, spans);
    drift = factor;
    return worked;
  });
  if (drift !== null)
    suggestReplan(replanning, peer, `${peer} takes ${share(drift)} the time that it was planned with`);
}

function probed(
  replanning: Replanning,
  donor: KnownDonor,
  { peer: other, roundTripMs, bytesPerSecond }: ProbedMessage,
) {
  const { peer, probe } = donor;
  const partner = donorOf(replanning, other);
  if (probe?.peer !== other || partner === undefined) return;
  const link = { peer: other, route: 'direct', roundTripMs, bytesPerSecond } as const;
  changeDonor(replanning, peer, { links: withLinks(donor, [link]).links });
  const text = `${peer} measured its link to ${other}: ${roundTripMs} ms, ${bytesPerSecond} bytes a second`;
  replanning.effects.push({ type: 'log', level: 'debug', text });
  // Until both have said it, it is no better than it was taken for.
  if (partner.links.some((back) => back.peer === peer))
    suggestReplan(replanning, peer, `${peer} and ${other} measured the link between them`);
}

/** `134 % of`, `23 times`. */
const share = (ratio: number): string =>
  ratio < 10 ? `${Math.round(100 * ratio)} % of` : `${rounded(ratio, 3)} times`;
