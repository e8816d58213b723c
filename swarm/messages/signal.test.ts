import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addressKind, isSameNetwork } from './addresses.ts';
import { CALL, decodeSignal, filteredSignal, RELAYED, SIGNAL_LENGTH_LIMIT, type Told } from './signal.ts';

const NAME = 'c0ffee00-1111-4222-8333-0123456789ab.local';
const candidate = (address: string, { port = '50000', type = 'host', rest = '' } = {}) =>
  `candidate:842163049 1 udp 1677729535 ${address} ${port} typ ${type}${rest}`;
const message = (line: string): string =>
  JSON.stringify({ type: 'candidate', candidate: { candidate: line, sdpMid: '0', sdpMLineIndex: 0 } });
const passes = (line: string, told: Told): boolean => filteredSignal(message(line), told) !== null;

/** By the registries of special-purpose addresses (RFC 6890 and its updates). */
const KINDS = {
  public: ['192.0.2.1', '8.8.8.8', '172.32.0.1', '100.63.0.1', '2001:db8::1', '2a00:1450:4001::68', '::ffff:8.8.8.8'],
  private: ['10.1.2.3', '172.16.0.1', '172.31.255.254', '192.168.1.1', '100.64.0.1', 'fd12::1', 'fc00::1'],
  nobody: [
    ...[
      '127.0.0.1',
      '127.9.9.9',
      '0.0.0.0',
      '0.1.2.3',
      '169.254.169.254',
      '224.0.0.251',
      '255.255.255.255',
      '240.0.0.1',
    ],
    ...['::1', '::', 'fe80::1', 'fe80::1%eth0', 'ff02::fb', '::ffff:127.0.0.1', '::ffff:7f00:1', '::127.0.0.1'],
    ...['64:ff9b::7f00:1', '0:0:0:0:0:ffff:169.254.169.254'],
  ],
} as const;
const IN_DISGUISE = ['::ffff:10.0.0.1', '::ffff:a00:1', '64:ff9b::10.0.0.1'];
const NO_ADDRESS = ['', 'localhost', '1.2.3', '1.2.3.256', '0x7f.1', '2130706433', '1:2:3', ':::', '1::2::3', 'g::1'];

test('[WP45] an address is known for what it is, however it is written', () => {
  for (const [kind, addresses] of Object.entries(KINDS))
    for (const address of addresses) expect(addressKind(address), address).toBe(kind);
  for (const address of IN_DISGUISE) expect(addressKind(address), address).toBe('private');
  for (const address of NO_ADDRESS) expect(addressKind(address), address).toBeNull();
});

test('[WP45] one network: the same address, or both behind the server’s own router', () => {
  expect(isSameNetwork('192.0.2.1', '192.0.2.1')).toBe(true);
  expect(isSameNetwork('192.0.2.1', '192.0.2.2')).toBe(false);
  expect(isSameNetwork('2001:db8:1:2::/64', '2001:db8:1:2::/64')).toBe(true);
  expect(isSameNetwork('2001:db8:1:2::/64', '2001:db8:1:3::/64')).toBe(false);
  expect(isSameNetwork('127.0.0.1', '192.168.1.7')).toBe(true);
  expect(isSameNetwork('192.168.1.7', '192.0.2.1')).toBe(false);
});

describe('[WP45] a signal', () => {
  test('that is longer than may be once it says no address is not handed on', () => {
    expect(filteredSignal(JSON.stringify({ type: 'offer', sdp: 'c=\n'.repeat(100) }), 'all')).not.toBeNull();
    expect(filteredSignal(JSON.stringify({ type: 'offer', sdp: 'c=\n'.repeat(1_000) }), 'all')).toBeNull();
  });

  test.each([
    [candidate('192.0.2.1'), ['all', 'public']],
    [candidate('2001:db8::1'), ['all', 'public']],
    [candidate('192.168.1.1'), ['all']],
    [candidate(NAME), ['all']],
    [candidate('192.0.2.1', { type: 'relay' }), ['all', 'public', 'turn']],
    [candidate('192.0.2.1', { port: '9', rest: ' tcptype active' }), ['all', 'public']],
    ['', ['all', 'public', 'turn']],
    ...['127.0.0.1', '::ffff:127.0.0.1', '169.254.169.254', 'printer.local', 'example.org', `x.${NAME}`].map(
      (address) => [candidate(address), []] as const,
    ),
    ...['22', '53', '0', '-1', '70000', 'x'].map((port) => [candidate('192.0.2.1', { port }), []] as const),
    [candidate('192.0.2.1').replaceAll(' ', '  '), []],
    [`${candidate('192.0.2.1')}\r\na=${candidate('10.0.0.1')}`, []],
    ['candidate:1 1 udp 1 192.0.2.1 5000', []],
  ] as const)('%s', (line, told) => {
    expect((['all', 'public', 'turn'] as const).filter((one) => passes(line, one))).toEqual(told);
  });

  test('does not tell the address behind a relay', () => {
    const line = candidate('192.0.2.1', { type: 'srflx', rest: ' raddr 192.168.1.7 rport 4711 generation 0' });
    const filtered = filteredSignal(message(line), 'public') ?? '';
    expect(JSON.parse(filtered).candidate.candidate).toBe(
      candidate('192.0.2.1', { type: 'srflx', rest: ' raddr 0.0.0.0 rport 0 generation 0' }),
    );
  });

  test('of a description the addresses go, and nothing else', () => {
    const kept = ['v=0', 'o=- 1 2 IN IP4 127.0.0.1', 'm=application 9 UDP/DTLS/SCTP webrtc-datachannel', 'a=mid:0'];
    const offer = (lines: readonly string[]) => JSON.stringify({ type: 'offer', sdp: lines.join('\r\n') });
    const all = [...kept, 'c=IN IP4 10.0.0.1', `a=${candidate('10.0.0.1')}`, `a=${candidate('192.0.2.1')}`, ''];
    expect(filteredSignal(offer(all), 'public')).toBe(
      offer([...kept, 'c=IN IP4 0.0.0.0', `a=${candidate('192.0.2.1')}`, '']),
    );
    const many = Array.from({ length: 100 }, () => `a=${candidate('192.0.2.1')}`);
    expect(decodeSignal(filteredSignal(offer(many), 'public') ?? '')).toMatchObject({
      sdp: many.slice(0, 40).join('\r\n'),
    });
  });

  test('of who hides its address tells nothing but a TURN server’s', () => {
    const lines = [
      candidate('10.0.0.1'),
      candidate(NAME),
      candidate('192.0.2.1'),
      candidate('192.0.2.1', { type: 'srflx' }),
    ];
    for (const line of lines) expect(passes(line, 'turn'), line).toBe(false);
    const relay = candidate('198.51.100.1', { type: 'relay', rest: ' raddr 192.0.2.1 rport 4711' });
    const told = filteredSignal(
      JSON.stringify({ type: 'offer', sdp: [...lines, relay].map((line) => `a=${line}`).join('\n') }),
      'turn',
    );
    expect(decodeSignal(told ?? '')).toEqual({
      type: 'offer',
      sdp: `a=${candidate('198.51.100.1', { type: 'relay', rest: ' raddr 0.0.0.0 rport 0' })}`,
    });
  });

  test('[WP51] of a connection beside the first is filtered as any, and keeps its place', () => {
    for (const place of [1, 7]) {
      expect(filteredSignal(`${place} ${message(candidate('192.0.2.1'))}`, 'public')).toBe(
        `${place} ${filteredSignal(message(candidate('192.0.2.1')), 'public')}`,
      );
      expect(filteredSignal(`${place} ${message(candidate('192.168.1.1'))}`, 'public')).toBeNull();
      expect(filteredSignal(`${place} ${CALL}`, 'public')).toBeNull();
    }
    for (const place of ['0', '8', '12', '-1', '1 1'])
      expect(filteredSignal(`${place} ${message(candidate('192.0.2.1'))}`, 'all'), place).toBeNull();
  });

  test('is passed over where it is no signal of a data link', () => {
    for (const word of [CALL, RELAYED]) expect(filteredSignal(word, 'public')).toBe(word);
    const others = ['', '{', 'null', '[]', '{"type":"renegotiate","renegotiate":true}', '{"type":"offer"}'];
    for (const data of [...others, 'x'.repeat(SIGNAL_LENGTH_LIMIT + 1)]) expect(filteredSignal(data, 'all')).toBeNull();
  });

  test('never throws, and never tells this machine’s own address', () => {
    const word = fc.constantFrom(
      '127.0.0.1',
      '::1',
      'candidate:1',
      'typ',
      'host',
      'udp',
      '1',
      '5000',
      'raddr',
      ' ',
      '\n',
    );
    const line = fc.array(word, { maxLength: 12 }).map((words) => words.join(' '));
    fc.assert(
      fc.property(line, fc.string(), (text, noise) => {
        filteredSignal(noise, 'all');
        const told = filteredSignal(message(text), 'all');
        const [, , , , address = ''] = told === null ? [] : String(JSON.parse(told).candidate.candidate).split(' ');
        expect(addressKind(address)).not.toBe('nobody');
      }),
      { seed: 20_261_122, numRuns: 2_000 },
    );
  });
});
