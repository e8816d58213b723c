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
    expect([lines.get(a)?.upload, lines.get(b)?.upload, lines.get(c)?.upload]).toEqual([6e6, 1.2e5, null]);
  });
});

it('one end cannot make a link better than one that nobody measured, or than the other end has it', () => {
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

it('what a line carries beyond its windows nobody knows', () => {
  const windowed = { ...way(b, 80, 2.5e5), windowBytes: 20_000 };
  const { pairs, lines } = known([a, said([windowed], 2.5e5)], [b, said([way(a, 80, 3e5)], 3e5)]);
  expect(pairs).toEqual([{ between: ['a', 'b'], latencySeconds: 0.04, bytesPerSecond: 5e6, windowBytes: 20_000 }]);
  expect([lines.get(a)?.upload, lines.get(b)?.upload]).toEqual([null, 3e5]);
});

describe('the lines that links share', () => {
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

it('[AP4] a rate of 0 is no measurement, of nobody’s', () => {
  const { pairs, lines } = known([a, said([way(b, 40, 0, 0)], 0)], [b, said([way(a, 40, 0, 0)], 0)], [c, said([], 0)]);
  expect(pairs).toEqual([{ between: ['a', 'b'], latencySeconds: 0.02 }]);
  const nothing = { upload: null, download: null };
  expect([...lines.values()]).toEqual(Array(3).fill({ ...nothing, own: nothing }));
});

describe('no receiver alone makes another one’s line slow', () => {
  it('what one says of less counts for that link only', () => {
    const lied = known([a, said([way(b, 40, 3e6), way(c, 40, 3e6)], 6e6)], [b, said([way(a, 40, null, 1)])]);
    expect(lied.pairs[0]).toEqual({ between: ['a', 'b'], latencySeconds: 0.02, bytesPerSecond: 1 });
    expect(lied.lines.get(a)?.upload).toBe(6e6);
    expect(known([a, said([way(b, 40, 6e6)])], [b, said([way(a, 40, null, 1)])]).lines.get(a)?.upload).toBe(5e6);
    expect(known([b, said([way(a, 40, null, 1)])]).lines.get(a)?.upload).toBeNull();
  });

  it('what two say counts, and is not kept', () => {
    const heard = [[b, said([way(a, 40, null, 3e5)])] as const, [c, said([way(a, 40, null, 6e5)])] as const];
    const claimed = known([a, said([way(b, 40, 3e6), way(c, 40, 3e6)], 6e6)], ...heard).lines.get(a);
    // A tenth and a fifth of what is said: a fifth of both.
    expect([claimed?.upload, claimed?.own.upload]).toEqual([1.2e6, 6e6]);
    const silent = known(...heard).lines.get(a);
    expect([silent?.upload, silent?.own.upload]).toEqual([6e5, null]);
  });

  it('a download that its senders alone speak of is not kept', () => {
    const into = (...heard: LinkReport[]) =>
      known(
        [a, said([way(c, 40, 1e6), way(b, 40, 3e6)])],
        [b, said([way(c, 40, 5e5), way(a, 40, 3e6)])],
        [c, said(heard)],
      ).lines.get(c);
    expect([into()?.download, into()?.own.download]).toEqual([1.5e6, null]);
    expect(into(way(a, 40, null, 1e6), way(b, 40, null, 5e5))?.own.download).toBe(1.5e6);
  });
});

it('a window with room for more than the link carries is not believed', () => {
  const pair = (windowBytes: number, streams = 1) => {
    const { pairs, lines } = known(
      [a, said([{ ...way(b, 80, 2.5e5), windowBytes, ...(streams > 1 && { streams }) }])],
      [b, said([way(a, 80, 2.5e5)])],
    );
    return [pairs[0]?.bytesPerSecond, pairs[0]?.windowBytes, lines.get(a)?.upload];
  };
  // 20,000 bytes come and go in 80 ms, twice as much at most.
  expect([pair(40_000), pair(40_001)]).toEqual([
    [5e6, 40_000, null],
    [2.5e5, undefined, 2.5e5],
  ]);
  expect([pair(10_000, 4), pair(10_001, 4)]).toEqual([
    [5e6, 10_000, null],
    [2.5e5, undefined, 2.5e5],
  ]);
  // And at least as much did come and go: a window that somebody met with as the link began is no limit of it.
  expect([pair(3_000), pair(500, 4)]).toEqual([
    [5e6, 20_000, null],
    [5e6, 5_000, null],
  ]);
});
