/**
 * Who may look at the run, and who may steer it. The server prints a token that opens one operator's session, and makes
 * others for viewers; the browser then carries a cookie of which the store has the hash, so that a session outlives a
 * restart. A session lasts so long of the server's own time: no clock that somebody sets ends or prolongs it.
 */
import { hash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { ROLES, type Role } from '../../swarm/messages/watch.ts';
import { keptWhile } from '../http/keptWhile.ts';
import { isSameSecret } from '../http/secret.ts';
import { monotonicMs } from '../monitoring/clock.ts';

const SESSION_COOKIE = 'shoal_operator';
const SESSION_DAYS = 7;
const DAY_MS = 86_400_000;
/** A viewer's token is used within so long. */
const VIEWER_TOKEN_MS = DAY_MS;
const MOST_VIEWER_TOKENS = 100;
const MOST_SESSIONS = 1_000;
/** What is left of the sessions is written down so often, and whenever one begins or ends. */
const SAVE_INTERVAL_MS = 600_000;

export type OperatorSession = ReturnType<typeof operatorSession>;

/** Where the sessions are kept between two servers. */
interface SessionStore {
  readonly saved: string | null;
  save(sessions: string): void;
}

const savedSchema = z.array(z.object({ hash: z.string(), role: z.enum(ROLES), name: z.string(), leftMs: z.number() }));

interface Session {
  readonly role: Role;
  readonly name: string;
  readonly endsMs: number;
}

export const newToken = (): string => randomBytes(18).toString('base64url');
export const newSessionKey = (): string => randomBytes(32).toString('base64url');
const hashOf = (text: string): string => hash('sha256', text);

/** As they were written down; none where that was by a version that wrote them otherwise. */
const parsed = (saved: string | null) => savedSchema.safeParse(JSON.parse(saved ?? '[]')).data ?? [];

const keyIn = (cookieHeader: string | undefined): string => hashOf(cookieOf(cookieHeader ?? '', SESSION_COOKIE) ?? '');

/** Who a cookie says is there, of these sessions by the hashes of their cookies. */
function visitors(sessions: () => ReadonlyMap<string, Session>) {
  const sessionOf = (cookieHeader: string | undefined): Session | null => {
    const session = sessions().get(keyIn(cookieHeader));
    return session !== undefined && session.endsMs > monotonicMs() ? session : null;
  };
  return {
    roleOf: (cookieHeader: string | undefined): Role | null => sessionOf(cookieHeader)?.role ?? null,
    /** A few letters that tell one session from another in the audit: no secret. */
    nameOf: (cookieHeader: string | undefined): string => sessionOf(cookieHeader)?.name ?? 'unnamed',
  };
}

/** `onNewToken` is told every token that replaces a used one. */
export function operatorSession(store: SessionStore, onNewToken: (token: string) => void) {
  const sessions = new Map<string, Session>();
  /** By its hash, until when each opens a session. */
  const viewerTokens = new Map<string, number>();
  /** Of the other processes of a site. */
  const others = new Map<string, () => void>();
  let current = newToken();
  let savedMs = monotonicMs();
  for (const { hash, leftMs, ...rest } of parsed(store.saved))
    sessions.set(hash, { ...rest, endsMs: savedMs + leftMs });

  const save = (): void => {
    const nowMs = monotonicMs();
    savedMs = nowMs;
    for (const [hash, { endsMs }] of sessions) if (endsMs <= nowMs) sessions.delete(hash);
    const left = [...sessions].map(([hash, { endsMs, ...rest }]) => ({ hash, ...rest, leftMs: endsMs - nowMs }));
    store.save(JSON.stringify(left));
  };
  const roleOfToken = (token: string): Role | null => {
    if (isSameSecret(token, current)) {
      current = newToken();
      onNewToken(current);
      return 'operator';
    }
    for (const [other, used] of others) {
      if (!isSameSecret(token, other)) continue;
      others.delete(other);
      used();
      return 'operator';
    }
    const untilMs = viewerTokens.get(hashOf(token)) ?? 0;
    viewerTokens.delete(hashOf(token));
    return untilMs > monotonicMs() ? 'viewer' : null;
  };
  return {
    /** The token that opens the operator's next session. */
    token: () => current,
    /** Another process's own token opens the operator's next session too, once: it is told. Call the answer to forget it. */
    alsoOpenedBy: (token: string, used: () => void) => {
      others.set(token, used);
      return () => void others.delete(token);
    },
    /** One that opens a viewer's session, once, within a day. */
    viewerToken: () => {
      const token = newToken();
      viewerTokens.set(hashOf(token), monotonicMs() + VIEWER_TOKEN_MS);
      dropOldest(viewerTokens, MOST_VIEWER_TOKENS);
      return token;
    },
    /** A cookie header for a right token, else null. */
    login: (token: string, secure: boolean) => {
      const role = roleOfToken(token);
      if (role === null) return null;
      const id = newSessionKey();
      const endsMs = monotonicMs() + SESSION_DAYS * DAY_MS;
      sessions.set(hashOf(id), { role, name: randomBytes(3).toString('hex'), endsMs });
      dropOldest(sessions, MOST_SESSIONS);
      save();
      return cookie(id, SESSION_DAYS * 86_400, secure);
    },
    /** Ends it; the cookie header that has the browser forget it. */
    logout: (cookieHeader: string | undefined) => {
      sessions.delete(keyIn(cookieHeader));
      save();
      return cookie('', 0, false);
    },
    ...visitors(() => {
      if (monotonicMs() - savedMs >= SAVE_INTERVAL_MS) save();
      return sessions;
    }),
  };
}

/**
 * Sessions that another process of the site opens and ends, as the store that all share has them (`saved`). Of each is known how
 * long it lasted when they were written down, which is when this process reads them, or a little before.
 */
export const followedSession = (saved: () => string | null) =>
  visitors(
    keptWhile(saved, () => {
      const nowMs = monotonicMs();
      return new Map(parsed(saved()).map((each) => [each.hash, { ...each, endsMs: nowMs + each.leftMs }]));
    }),
  );

const cookie = (value: string, seconds: number, secure: boolean): string =>
  `${SESSION_COOKIE}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${seconds}${secure ? '; Secure' : ''}`;

function dropOldest(map: Map<string, unknown>, most: number): void {
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}

function cookieOf(header: string, name: string): string | null {
  for (const part of header.split(';')) {
    const [key, value] = part.trim().split('=', 2);
    if (key === name && value) return value;
  }
  return null;
}
