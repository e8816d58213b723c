import { type Result, refusal, success } from '../../swarm/base.ts';

/** NATS has these alone in the names of streams that people can read. */
const SITE_NAME = /^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/;

/** Refuses with one sentence. */
export const parseSiteName = (text: string): Result<string> =>
  SITE_NAME.test(text)
    ? success(text)
    : refusal(`"${text}" is no name of a site: expected up to 32 of a-z, 0-9 and hyphens between them`);
