/**
 * Whether this browser keeps pages off its local network until a person allows it (Chromium from 142 on). Donors behind one
 * router are connected there, so the browser may ask in the middle of the work: the page explains it before. Who refuses
 * is connected through the server instead.
 */

/** open: it asks nothing, or was allowed already. */
export type LocalNetwork = 'asks' | 'refused' | 'open';

/** What the permission is called, in one version and another. */
const NAMES = ['local-network-access', 'local-network'];

const MEANING: Readonly<Record<PermissionState, LocalNetwork>> = { prompt: 'asks', denied: 'refused', granted: 'open' };

/** Looking asks nobody. */
export async function seeLocalNetwork(query: (name: string) => Promise<PermissionState>): Promise<LocalNetwork> {
  for (const name of NAMES) {
    try {
      return MEANING[await query(name)];
    } catch {
      // This browser knows no such permission.
    }
  }
  return 'open';
}

export const queryPermission = async (name: string): Promise<PermissionState> =>
  (await navigator.permissions.query({ name: name as PermissionName })).state; // newer than the list of names

/** What a person should know of it; null: nothing, since it is never asked or never used. */
export function localNetworkFact(localNetwork: LocalNetwork, relayOnly: boolean): readonly [string, string] | null {
  if (relayOnly || localNetwork === 'open') return null;
  if (localNetwork === 'refused')
    return [
      'Your local network',
      'This browser keeps the page off it, so donors behind your router are reached through the server, which is slower. You can allow it in the site’s settings, beside the address.',
    ];
  return [
    'What your browser may ask',
    'Whether this page may reach devices on your local network. It’s only for donors behind the same router, who are then connected directly. If you refuse, they’re reached through the server, which is slower.',
  ];
}
