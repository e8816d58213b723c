/** What kind of place a network address names, in any way of writing it. */

type AddressKind =
  | 'public'
  /** Of a home's or a company's own network. */
  | 'private'
  /** This machine, everyone at once, nobody: no other donor is ever there. */
  | 'nobody';

/** Null: no address (a name, say). */
export function addressKind(text: string): AddressKind | null {
  const four = fourOf(text);
  if (four !== null) return kindOfFour(four);
  const groups = groupsOf(text);
  if (groups === null) return null;
  const embedded = embeddedFour(groups);
  return embedded === null ? kindOfGroups(groups) : kindOfFour(embedded);
}

/** Whether two donors are in one home, company or machine, as far as the server sees their networks (an IPv6 one by its /64). */
export function isSameNetwork(one: string, other: string): boolean {
  const isOwn = (network: string): boolean => {
    const kind = addressKind(network.replace(/\/64$/, ''));
    return kind === 'private' || kind === 'nobody';
  };
  return one === other || (isOwn(one) && isOwn(other));
}

function fourOf(text: string): number[] | null {
  if (!/^\d{1,3}(\.\d{1,3}){3}$/.test(text)) return null;
  const bytes = text.split('.').map(Number);
  return bytes.every((byte) => byte <= 255) ? bytes : null;
}

function kindOfFour([a = 0, b = 0]: readonly number[]): AddressKind {
  if (a === 0 || a === 127 || a >= 224 || (a === 169 && b === 254)) return 'nobody';
  const isPrivate = a === 10 || (a === 172 && b >= 16 && b < 32) || (a === 192 && b === 168);
  const isCarriers = a === 100 && b >= 64 && b < 128;
  return isPrivate || isCarriers ? 'private' : 'public';
}

/** The eight groups of an IPv6 address; its zone is left aside. */
function groupsOf(text: string): number[] | null {
  const [address = ''] = text.split('%');
  if (!/^[0-9a-f:.]{2,45}$/i.test(address) || !address.includes(':')) return null;
  const halves = address.split('::');
  if (halves.length > 2) return null;
  const [head = [], tail] = halves.map(groupsOfHalf);
  if (head === null || tail === null) return null;
  if (tail === undefined) return head.length === 8 ? head : null;
  const zeros = 8 - head.length - tail.length;
  return zeros < 1 ? null : [...head, ...Array<number>(zeros).fill(0), ...tail];
}

function groupsOfHalf(half: string): number[] | null {
  const groups: number[] = [];
  for (const part of half === '' ? [] : half.split(':')) {
    const four = fourOf(part);
    if (four) groups.push(pair(four[0], four[1]), pair(four[2], four[3]));
    else if (/^[0-9a-f]{1,4}$/i.test(part)) groups.push(Number.parseInt(part, 16));
    else return null;
  }
  return groups;
}

const pair = (high = 0, low = 0): number => high * 256 + low;

/** An IPv4 address written as IPv6 (mapped, or of a translator) is what it is as IPv4. */
function embeddedFour(groups: readonly number[]): number[] | null {
  const prefix = groups
    .slice(0, 6)
    .map((group) => group.toString(16))
    .join(':');
  if (!['0:0:0:0:0:ffff', '0:0:0:0:0:0', '64:ff9b:0:0:0:0'].includes(prefix)) return null;
  return groups.slice(6).flatMap((group) => [Math.floor(group / 256), group % 256]);
}

function kindOfGroups([first = 0]: readonly number[]): AddressKind {
  if (first >= 0xff00 || (first & 0xffc0) === 0xfe80 || first === 0) return 'nobody';
  return (first & 0xfe00) === 0xfc00 || (first & 0xffc0) === 0xfec0 ? 'private' : 'public';
}
