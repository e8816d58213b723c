import { expect, test } from 'vitest';
import { isThisComputer } from './thisComputer.ts';

test('the addresses of this computer are told from all others', () => {
  for (const host of ['localhost', 'localhost:8080', '127.0.0.1:8080', '[::1]', '[::1]:8080', 'shoal.localhost:1'])
    expect(isThisComputer(host), host).toBe(true);
  for (const host of ['shoal.example', 'localhost.example:8080', '192.168.1.7:8080', '[fe80::1]:80', '127.example'])
    expect(isThisComputer(host), host).toBe(false);
});
