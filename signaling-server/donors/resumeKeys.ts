/** By what a tab that comes back proves which peer it was. The secret is the data directory's, so a server that was killed knows it again. */
import { createHmac, randomBytes } from 'node:crypto';
import type { PeerId } from '../../swarm/base.ts';
import { RESUME_SECRET, type Store } from '../store/store.ts';

export function resumeKeys(store: Store, run: string): (peer: PeerId) => string {
  const secret = store.secret(RESUME_SECRET, () => randomBytes(32).toString('base64url'));
  return (peer) => createHmac('sha256', secret).update(`${run} ${peer}`).digest('base64url');
}
