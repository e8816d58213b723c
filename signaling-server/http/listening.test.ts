import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { listenFault } from './listening.ts';

test('a port that is taken is known before a server begins, a free one is left free', async () => {
  const taken = createServer();
  const port = await new Promise<number>((resolve, reject) => {
    taken.listen(0, 'localhost', () => {
      const address = taken.address();
      if (address === null || typeof address === 'string') reject(new Error('a port'));
      else resolve(address.port);
    });
  });
  expect(await listenFault('localhost', port)).toBe(
    `port ${port} of localhost is taken: choose another one with --port`,
  );
  await new Promise((resolve) => taken.close(resolve));
  expect(await listenFault('localhost', port)).toBeNull();
  expect(await listenFault('localhost', port)).toBeNull();
});
