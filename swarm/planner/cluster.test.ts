import { describe, expect, it } from 'vitest';
import { invariant } from '../base.ts';
import { linkTable, parseCluster } from './cluster.ts';
import { changedCluster } from './whatIf.ts';

const PEERS = [
  { id: 'a', memoryBytes: 1e9, flopsPerSecond: 1e9, region: 'eu' },
  { id: 'b', memoryBytes: 1e9, flopsPerSecond: 1e9, region: 'eu' },
  { id: 'c', memoryBytes: 1e9, flopsPerSecond: 1e9, region: 'us', uploadBytesPerSecond: 1e6 },
];
const LINKS = {
  default: { latencySeconds: 0.04, bytesPerSecond: 2.5e6, windowBytes: 1.5e6 },
  regions: [{ between: ['us', 'eu'], latencySeconds: 0.5 }],
  pairs: [{ between: ['b', 'c'], latencySeconds: 0.001, bytesPerSecond: null }],
};
const [FIRST, ...OTHERS] = PEERS;
const withFirst = (change: object) => ({ peers: [{ ...FIRST, ...change }, ...OTHERS], links: LINKS });

describe('what is refused, in one sentence with the file and the field', () => {
  it.each([
    [{ peers: [], links: LINKS }, /^c\.json: peers must be a list of one peer or more/],
    [{ links: LINKS }, /^c\.json: peers is missing/],
    [withFirst({ memoryBytes: -1 }), /peers\[0\]\.memoryBytes must be a number of 0 or more, not -1/],
    [withFirst({ memoryBytes: Number.NaN }), /peers\[0\]\.memoryBytes must be a number of 0 or more/],
    [
      withFirst({ uploadBytesPerSecond: 0 }),
      /peers\[0\]\.uploadBytesPerSecond must be a number above 0, or null, not 0/,
    ],
    [
      { peers: PEERS.map((peer) => ({ ...peer, line: 'home' })) },
      /peers\[2\]\.uploadBytesPerSecond must be the same as peers\[0\]\.uploadBytesPerSecond: both are on the line "home"/,
    ],
    [withFirst({ line: '' }), /peers\[0\]\.line must be a name/],
    [withFirst({ speed: 2 }), /peers\[0\]\.speed is unknown/],
    [withFirst({ id: '\u001b[2Ja' }), /peers\[0\]\.id must be a name without control characters/],
    [withFirst({ id: 'b' }), /peers\[1\]\.id must be a name of its own, not "b"/],
    [withFirst({ flopsPerSecond: undefined }), /peers\[0\]\.flopsPerSecond is missing/],
    [
      withFirst({ measured: { forwardSecondsPerLayer: [], backwardSecondsPerLayer: [1] } }),
      /list of one number or more/,
    ],
    [
      withFirst({ measured: { forwardSecondsPerLayer: [0], backwardSecondsPerLayer: [0, 1] } }),
      /peers\[0\]\.measured must be times above 0/,
    ],
    [withFirst({ flopsPerSecond: Infinity }), /flopsPerSecond must be a number above 0, not Infinity/],
    [withFirst({ flopsPerSecond: 5e-324 }), /flopsPerSecond must be at least 1e-30, not 5e-324/],
    [withFirst({ memoryBytes: 1e308 }), /memoryBytes must be at most 1e\+30, not 1e\+308/],
    [{ peers: PEERS, links: { ...LINKS, pairs: [{ between: ['a', 'z'] }] } }, /pairs\[0\]\.between\[1\] .* not "z"/],
    [{ peers: PEERS, links: { ...LINKS, pairs: [{ between: ['a', 'a'] }] } }, /two peers, not "a" twice/],
    [{ peers: PEERS, links: { ...LINKS, regions: [{ between: ['eu', 'mars'] }] } }, /regions\[0\].* not "mars"/],
    [
      { peers: PEERS, links: { pairs: [{ between: ['a', 'b'] }, { between: ['b', 'a'] }] } },
      /pairs\[1\]\.between must be two others/,
    ],
  ])('%j', (json, sentence) => {
    const found = parseCluster(json, 'c.json');
    expect(found.ok ? '' : found.reason).toMatch(sentence);
    expect(found.ok ? '' : found.reason).not.toContain('\n');
  });
});

it('of a line that peers share each has an equal part, both ways; other lines are their own', () => {
  const caps = { uploadBytesPerSecond: 3e6, downloadBytesPerSecond: 9e6 };
  const named = ['home', 'home', 'flat', 'home', undefined].map((line, place) => ({
    ...{ id: `p${place}`, memoryBytes: 1e9, flopsPerSecond: 1e9, ...caps },
    ...(line && { line }),
  }));
  const unlimited = { id: 'u', memoryBytes: 1e9, flopsPerSecond: 1e9, line: 'office' };
  const found = parseCluster({ peers: [...named, unlimited, { ...unlimited, id: 'v' }] }, 'c.json');
  invariant(found.ok, 'a cluster');
  const { peers } = found.value;
  expect(peers.map(({ uploadBytesPerSecond }) => uploadBytesPerSecond)).toEqual([1e6, 1e6, 3e6, 1e6, 3e6, null, null]);
  expect(peers.map(({ downloadBytesPerSecond }) => downloadBytesPerSecond)).toEqual([
    ...[3e6, 3e6, 9e6, 3e6, 9e6],
    ...[null, null],
  ]);
  // Read again, as for a what-if, nothing is shared out twice.
  expect(parseCluster(found.value, 'c.json')).toEqual(found);
});

it('the most exact rule wins, what it leaves out is the default; as many streams as help, at most 8', () => {
  const found = parseCluster({ peers: PEERS, links: LINKS }, 'c.json');
  invariant(found.ok, 'a cluster');
  const between = (a: string, b: string) => linkTable(found.value)('abc'.indexOf(a), 'abc'.indexOf(b));
  expect(between('a', 'b')).toEqual({ latencySeconds: 0.04, bytesPerSecond: 2.5e6, streams: 1 });
  expect(between('a', 'c')).toEqual({ latencySeconds: 0.5, bytesPerSecond: 2.5e6, streams: 2 });
  expect(between('c', 'b')).toEqual({ latencySeconds: 0.001, bytesPerSecond: 6e9, streams: 8 });
  const window = { ...LINKS, regions: [{ between: ['us', 'eu'], latencySeconds: 0.5, windowBytes: 1e5 }] };
  const narrow = parseCluster({ peers: PEERS, links: window }, 'c.json');
  invariant(narrow.ok, 'a cluster');
  expect(linkTable(narrow.value)(0, 2).bytesPerSecond).toBe(8e5);
});

describe('what-if', () => {
  const found = parseCluster({ peers: PEERS, links: LINKS }, 'c.json');
  invariant(found.ok, 'a cluster');
  it('adds peers with the links of the one they are like, scales fields, removes', () => {
    const changed = changedCluster(found.value, 'add 2 like b; uploadBytesPerSecond x2; remove a');
    invariant(changed.ok, 'a change');
    expect(changed.value.peers.map(({ id, uploadBytesPerSecond }) => [id, uploadBytesPerSecond])).toEqual([
      ['b', null],
      ['c', 2e6],
      ['b-2', null],
      ['b-3', null],
    ]);
    // From b-3 to c.
    expect(linkTable(changed.value)(3, 1).latencySeconds).toBe(0.001);
    expect(parseCluster(JSON.parse(JSON.stringify(changed.value)), 'c.json').ok).toBe(true);
  });
  it('has faster peers do in less time what they measured', () => {
    const measured = { forwardSecondsPerLayer: [1, 3], backwardSecondsPerLayer: [2], memoryBytesPerLayer: [5] };
    const [first, ...others] = found.value.peers;
    invariant(first, 'a peer');
    const cluster = { ...found.value, peers: [{ ...first, measured }, ...others] };
    const changed = changedCluster(cluster, ' flopsPerSecond  x 2 ;; latencySeconds x0.5');
    invariant(changed.ok, 'a change');
    const faster = { forwardSecondsPerLayer: [0.5, 1.5], backwardSecondsPerLayer: [1], memoryBytesPerLayer: [5] };
    expect(changed.value.peers.map((peer) => peer.measured ?? peer.flopsPerSecond)).toEqual([faster, 2e9, 2e9]);
    expect(changed.value.links.default.latencySeconds).toBe(0.02);
  });
  it('changes how long donors stay from an hour, where nothing is said, and their main memory', () => {
    const [first, ...others] = found.value.peers;
    invariant(first, 'a peer');
    const cluster = { ...found.value, peers: [{ ...first, hostBytes: 8, meanSessionSeconds: 60 }, ...others] };
    const changed = changedCluster(cluster, 'meanSessionSeconds x2; hostBytes x3');
    invariant(changed.ok, 'a change');
    expect(changed.value.peers.map((peer) => [peer.meanSessionSeconds, peer.hostBytes])).toEqual([
      [120, 24],
      [7_200, undefined],
      [7_200, undefined],
    ]);
  });
  it.each([
    ['add 2 like z', /"z" must be the id of a peer/],
    ['remove a; remove b; remove c', /there is no peer left/],
    ['speed x2', /"speed" is unknown/],
    ['make it faster', /says nothing known/],
    ['memoryBytes x1e30', /^what it makes of the cluster: peers\[0\]\.memoryBytes must be at most 1e\+30/],
  ])('refuses "%s"', (text, sentence) => {
    const changed = changedCluster(found.value, text);
    expect(changed.ok ? '' : changed.reason).toMatch(sentence);
  });
});
