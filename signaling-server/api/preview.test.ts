import { afterEach, expect, it } from 'vitest';
import { OperatedServer } from '../testing/operatedServer.ts';
import type { PublicView } from './visible.ts';

let operated: OperatedServer;
afterEach(() => operated.close());

it.each([
  [{}, 'public, max-age=60'],
  [{ invite: 'come in', publicView: 'status' as PublicView }, 'public, max-age=60'],
  [{ invite: 'come in' }, 'private, no-store'],
])('only a picture that is the same for everybody is kept on the way: %j', async (options, kept) => {
  operated = new OperatedServer();
  const { url } = await operated.serve(9, options);
  for (const query of ['', '?invite=come%20in']) {
    const { status, headers } = await fetch(`${url}/preview.png${query}`);
    expect([status, headers.get('cache-control')]).toEqual([200, kept]);
  }
});
