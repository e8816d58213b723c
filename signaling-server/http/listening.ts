/** Whether a server can listen at an address, and why not, in one sentence. */
import { createServer } from 'node:net';
import { messageOf } from '../files/errorWords.ts';

export function listenProblem(error: unknown, host: string, port: number): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') return `port ${port} of ${host} is taken: choose another one with --port`;
  if (code === 'EACCES') return `port ${port} of ${host} may not be used by you: choose another one with --port`;
  if (code === 'ENOTFOUND' || code === 'EADDRNOTAVAIL') return `${host} is no address of this machine: see --host`;
  return `the server cannot listen on ${host}:${port}: ${messageOf(error)}`;
}

/** By trying, before anything is written for a server that could not begin; null: it can. */
export function listenFault(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error) => resolve(listenProblem(error, host, port)));
    probe.listen({ host, port }, () => probe.close(() => resolve(null)));
  });
}
