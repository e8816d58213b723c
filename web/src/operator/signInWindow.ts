/**
 * The window in which an operator signs in at the Hub. It comes back to the dashboard's address with a code, which it
 * hands to the dashboard that opened it: the two are of one origin but no longer know each other, since pages here are
 * isolated from other sites. The code is of no use to anybody without the secret that the dashboard keeps in its memory.
 */
const channel = (): BroadcastChannel => new BroadcastChannel('shoal sign-in');

/** On the dashboard's page: true where this is such a window, which closes if the browser lets it. */
export function handOver(): boolean {
  if (!new URLSearchParams(location.search).has('state')) return false;
  channel().postMessage(location.href);
  history.replaceState(null, '', location.pathname);
  close();
  return true;
}

/** The address with which the window came back that carries this nonce. */
export function comeBack(nonce: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  const windows = channel();
  return new Promise<string>((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
    windows.addEventListener('message', ({ data }) => {
      if (typeof data === 'string' && data.includes(nonce)) resolve(data);
    });
  }).finally(() => windows.close());
}
