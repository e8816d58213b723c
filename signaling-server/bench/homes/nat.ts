/**
 * A home router's address translation, of the usual kinds (RFC 4787): which public port stands for a port of the home, and
 * what is let in by it. `none`: the home's own addresses are public.
 */
import { invariant } from '../../../swarm/base.ts';

export const NAT_KINDS = ['none', 'fullCone', 'restricted', 'symmetric'] as const;
/** restricted: by address and port. */
export type NatKind = (typeof NAT_KINDS)[number];

/** A port of another home, or of the server. */
export interface Endpoint {
  readonly home: number | 'server';
  readonly port: number;
}

interface Mapping {
  readonly homePort: number;
  readonly publicPort: number;
  /** Whom the home has sent to by it. */
  readonly sentTo: Set<string>;
}

const nameOf = ({ home, port }: Endpoint): string => `${home}:${port}`;

export class Nat {
  readonly kind: NatKind;
  readonly #ports: { readonly first: number; readonly count: number };
  readonly #byPublicPort = new Map<number, Mapping>();
  readonly #bySender = new Map<string, Mapping>();

  constructor(kind: NatKind, ports: { readonly first: number; readonly count: number }) {
    this.kind = kind;
    this.#ports = ports;
  }

  /** The public port by which the home's packet goes out; null: none is free. */
  out(homePort: number, to: Endpoint): number | null {
    if (this.kind === 'none') return homePort;
    const sender = this.kind === 'symmetric' ? `${homePort} ${nameOf(to)}` : String(homePort);
    const mapping = this.#bySender.get(sender) ?? this.#mapped(sender, homePort);
    mapping?.sentTo.add(nameOf(to));
    return mapping?.publicPort ?? null;
  }

  /** The home's port that a packet goes to; null: it is not let in. */
  in(publicPort: number, from: Endpoint): number | null {
    if (this.kind === 'none') return publicPort;
    const mapping = this.#byPublicPort.get(publicPort);
    if (mapping === undefined) return null;
    return this.kind === 'fullCone' || mapping.sentTo.has(nameOf(from)) ? mapping.homePort : null;
  }

  /** Nobody can tell the home's port by the public one. */
  #mapped(sender: string, homePort: number): Mapping | null {
    const { first, count } = this.#ports;
    invariant(count > 0, 'a router has ports');
    for (let step = 1; step <= count; step++) {
      const publicPort = first + ((homePort - first + 17 * step) % count);
      if (this.#byPublicPort.has(publicPort)) continue;
      const mapping = { homePort, publicPort, sentTo: new Set<string>() };
      this.#byPublicPort.set(publicPort, mapping);
      this.#bySender.set(sender, mapping);
      return mapping;
    }
    return null;
  }
}
