import { expect, test } from 'vitest';
import { among, isLoopback, isOneLine, networkOf } from './networkOf.ts';

test('an address counts as its network: IPv4 each, IPv6 the first 64 bits, a mapped one is IPv4', () => {
  for (const [address, network] of [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:C000:0207', '192.0.2.7'],
    ['0:0:0:0:0:ffff:c000:207', '192.0.2.7'],
    ['2001:db8:1:2::1', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2:ffff:ffff:ffff:ffff', '2001:db8:1:2::/64'],
    ['2001:db8::', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::fffe:192.0.2.7', '0:0:0:0::/64'],
    ['', ''],
    ['no address', 'no address'],
  ] as const)
    expect(networkOf(address), address).toBe(network);
  expect(networkOf('2001:db8:1:3::1')).not.toBe(networkOf('2001:db8:1:2::1'));
});

test('a trusted proxy is known by its address, a range, or the name of some', () => {
  const isProxy = among(['192.0.2.7', '10.0.0.0/8', '2001:db8::/32', 'loopback']);
  for (const address of ['192.0.2.7', '::ffff:192.0.2.7', '10.9.9.9', '2001:db8:5::1', '127.0.0.1', '::1'])
    expect(isProxy(address), address).toBe(true);
  for (const address of ['192.0.2.8', '11.0.0.1', '2001:db9::1', '', 'proxy']) expect(isProxy(address)).toBe(false);
});

test('this machine is known by its loopback addresses', () => {
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1'])
    expect(isLoopback(address), address).toBe(true);
  for (const address of ['128.0.0.1', '::2', '::127.0.0.1', '10.127.0.1', '']) expect(isLoopback(address)).toBe(false);
});

test('who has one public address is behind one router; an inner address says nothing of lines', () => {
  for (const address of ['8.8.4.4', '::ffff:8.8.4.4', '100.128.0.1', '172.32.0.1', '2a00:1450:4001:810::200e'])
    expect(isOneLine(networkOf(address)), address).toBe(true);
  const inner = [
    '127.0.0.1',
    '::1',
    '10.1.2.3',
    '172.16.0.1',
    '192.168.1.7',
    '169.254.1.1',
    '100.64.0.1',
    'fd00::1',
    'fe80::1',
  ];
  for (const address of [...inner, '', 'no address']) expect(isOneLine(networkOf(address)), address).toBe(false);
});
