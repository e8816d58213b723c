/**
 * A run that trains beside the one that its site began with: in a journal and a store of its own. It begins there with all
 * that the site's store has of it; what is everybody's (sessions, names, closed doors) stays there.
 */
import { hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { wallMs } from '../monitoring/clock.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { contentOfRun, runBlobs } from '../store/runContent.ts';
import type { Store } from '../store/store.ts';

/** Names the run in streams, buckets, keys and tokens, which not every name could. */
export const runIdOf = (run: string): string => hash('sha256', run).slice(0, 12);

/** Puts the run into a store that has none: files first, each compared with its name; all or nothing. */
export async function moveRun(from: DataDirectory, to: DataDirectory, run: string): Promise<Result<null>> {
  if (to.store.run(run) !== null) return success(null);
  for (const hash of runBlobs(from.store, run)) {
    const problem = await from.blobs.problem(hash);
    if (problem !== null) return refusal(problem);
    await to.blobs.putStream(createReadStream(from.blobs.path(hash)));
  }
  to.store.fill(contentOfRun(from.store.content(), run));
  await to.store.kept();
  return success(null);
}

/** The run's store, which asks the site's for what is everybody's. */
export const storeOfRun = (own: Store, site: Store): Store => ({
  ...own,
  setting: (key) => (key === 'sessions' || key === 'webhook' ? site : own).setting(key),
  member: site.member,
  memberNamed: site.memberNamed,
  queue: () => [],
  // Who is shut out of the first run is of all; a run's operator shuts out of this one.
  isBlocked: (address) => own.isBlocked(address) || site.isBlocked(address),
  linkMember: (run, peer, id) => {
    const member = site.member(id);
    if (member === null) return;
    own.saveMember(member, wallMs());
    own.linkMember(run, peer, id);
  },
});

/** The site's store, which asks those of its runs for what is theirs by now. `storeFor` null: it is the site's own. */
export const storeOfSite = (site: Store, storeFor: (run: string) => Store | null): Store => {
  const of = (run: string): Store => storeFor(run) ?? site;
  return {
    ...site,
    run: (run) => of(run).run(run),
    committedSteps: (run) => of(run).committedSteps(run),
    steps: (run, from) => of(run).steps(run, from),
    stepsSpread: (run, until, most) => of(run).stepsSpread(run, until, most),
    checkpoints: (run) => of(run).checkpoints(run),
    formerCheckpoints: (run) => of(run).formerCheckpoints(run),
    samples: (run) => of(run).samples(run),
    evaluations: (run) => of(run).evaluations(run),
    note: (run) => of(run).note(run),
  };
};
