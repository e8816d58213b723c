/**
 * Whose address it is, as far as limits are concerned: of IPv4 each address, of IPv6 the network that a subscriber is
 * given, since whoever has one of its addresses has 2^64.
 */
import { BlockList, isIP } from 'node:net';

/** `192.0.2.7`, or `2001:db8:1:2::/64`; IPv4 in IPv6's clothes is IPv4. */
export function networkOf(address: string): string {
  const [plain = ''] = address.split('%'); // a link-local one may name its interface
  if (isIP(plain) !== 6) return plain;
  const groups = groupsOf(plain);
  const [high = 0, low = 0] = groups.slice(6);
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (isMapped) return [high >> 8, high & 255, low >> 8, low & 255].join('.');
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  return `${network.join(':')}::/64`;
}

/** Whether it is this very machine's own. */
export const isLoopback = (address: string): boolean => /^127\./.test(networkOf(address)) || address === '::1';

const NAMED_RANGES: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

/** Whether an address is one of these, or in one of these ranges, as `--trust-proxy` takes them. */
export function among(ranges: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  const family = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4');
  for (const range of ranges.flatMap((part) => NAMED_RANGES[part] ?? [part])) {
    const [first = '', bits] = range.split('/');
    if (bits === undefined) list.addAddress(first, family(first));
    else list.addSubnet(first, Number(bits), family(first));
  }
  return (address) => {
    const network = networkOf(address);
    const plain = isIP(network) === 4 ? network : (address.split('%')[0] ?? '');
    return isIP(plain) !== 0 && list.check(plain, family(plain));
  };
}

/** This machine's, a home's own, and (RFC 6598) a carrier's own: they do not tell who is behind which router. */
const isInner = among(['loopback', 'linklocal', 'uniquelocal', '100.64.0.0/10']);
const LOOPBACK = networkOf('::1');

/** Whether who has an address of this network shares a line with others who have one of it, as behind a router at home. */
export function isOneLine(network: string): boolean {
  const address = network.replace(/::\/64$/, '::');
  return isIP(address) !== 0 && network !== LOOPBACK && !isInner(address);
}

/** The eight numbers of an IPv6 address, however it is written. */
function groupsOf(address: string): number[] {
  const written = new URL(`http://[${address}]`).hostname.slice(1, -1); // no dots, zeros left out once at most
  const [before = '', after] = written.split('::');
  const numbers = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16));
  const [first, last] = [numbers(before), numbers(after ?? '')];
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}
