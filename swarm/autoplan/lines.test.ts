import { describe, expect, it } from 'vitest';
import { peerId } from '../base.ts';
import type { LinkReport } from '../messages/profile.ts';
import { knownLinks, type ReportedLinks } from './lines.ts';

const [a, b, c] = [peerId('a'), peerId('b'), peerId('c')];
const way = (peer: typeof a, roundTripMs: number | null, sent: number | null, heard?: number): LinkReport => ({
  ...{ peer, route: 'direct', roundTripMs, bytesPerSecond: sent },
  ...(heard !== undefined && { receivedBytesPerSecond: heard }),
});
const said = (links: readonly LinkReport[], uploadBytesPerSecond: number | null = null): ReportedLinks => ({
  links,
  uploadBytesPerSecond,
});
const known = (...reports: readonly (readonly [typeof a, ReportedLinks])[]) => knownLinks([a, b, c], new Map(reports));

describe('[AP4] a link has what both its ends say alike', () => {
  it('each way the lower of what was sent and what arrived, and the longer round trip', () => {
    const { pairs } = known([a, said([way(b, 40, 2e6)])], [b, said([way(a, 60, null, 1.5e6)])]);
    expect(pairs).toEqual([{ between: ['a', 'b'], latencySeconds: 0.03, bytesPerSecond: 1.5e6 }]);
  });

  it('the rate of the better way, the slower end being known for its own line', () => {
    const { pairs, lines } = known([a, said([way(b, 40, 6e6, 1e5)])], [b, said([way(a, 40, 1.2e5, 6.5e6)])]);
    expect(pairs).toEqual([{ between: ['a', 'b'], latencySeconds: 0.02, bytesPerSecond: 6e6 }]);
    expect([lines.get(a)?.upload, lines.get(b)?.upload, lines.get(c)?.upload]).toEqual([6e6, 1e5, null]);
  });
});

it('[AP24] one end cannot make a link better than one that nobody measured, or than the other end has it', () => {
  const { pairs, lines } = known(
    [a, said([way(b, 0, 1e12), way(c, 0, 1e12)], 1e12)],
    [b, said([way(a, 900, 1e7), way(c, 900, 1e3)])],
  );
  expect(pairs).toEqual([
    { between: ['a', 'b'], latencySeconds: 0.45, bytesPerSecond: 1e7 },
    { between: ['a', 'c'], latencySeconds: 0.01, bytesPerSecond: 5e6 },
    { between: ['b', 'c'], latencySeconds: 0.45, bytesPerSecond: 1e3 },
  ]);
  expect(lines.get(a)?.upload).toBe(1.5e7);
});

it('[AP55] what a line carries beyond its windows nobody knows', () => {
  const windowed = { ...way(b, 80, 2.5e5), windowBytes: 20_000 };
  const { pairs, lines } = known([a, said([windowed], 2.5e5)], [b, said([way(a, 80, 3e5)], 3e5)]);
  expect(pairs).toEqual([{ between: ['a', 'b'], latencySeconds: 0.04, bytesPerSecond: 5e6, windowBytes: 20_000 }]);
  expect([lines.get(a)?.upload, lines.get(b)?.upload]).toEqual([null, 3e5]);
});

describe('[AP54] the lines that links share', () => {
  it('a donor’s upload is what its links carried at once, at least what one alone did', () => {
    const both = [way(b, 40, 2e6), way(c, 40, 1e6)];
    const upload = (claimed: number | null) => known([a, said(both, claimed)]).lines.get(a)?.upload;
    expect([upload(2.4e6), upload(null), upload(1e6), upload(9e9)]).toEqual([2.4e6, 2e6, 2e6, 3e6]);
  });

  it('its download is what several carry to it who each could send more', () => {
    const download = (aRate: number, bRate: number) =>
      known([a, said([way(c, 40, aRate), way(b, 40, 3e6)])], [b, said([way(c, 40, bRate), way(a, 40, 3e6)])]).lines.get(
        c,
      )?.download;
    expect([download(1e6, 5e5), download(1e6, 2.9e6)]).toEqual([1.5e6, null]);
  });
});
