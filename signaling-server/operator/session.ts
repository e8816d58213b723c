/**
 * Who may steer the run. The server prints a token that opens one session; the browser then carries a signed cookie
 * whose key lives in the store, so that a session outlives a restart. Each token works once, then there is a new one.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { type JWTPayload, jwtVerify, SignJWT } from 'jose';

const SESSION_COOKIE = 'shoal_operator';
const SESSION_DAYS = 7;
const ISSUER = 'shoal';

export interface OperatorSession {
  /** The token that opens the next session. */
  token(): string;
  /** A cookie header for the right token, else null. */
  login(token: string, secure: boolean): Promise<string | null>;
  isOperator(cookieHeader: string | undefined): Promise<boolean>;
  /** A few letters that tell one session from another in the audit: no secret. */
  nameOf(cookieHeader: string | undefined): Promise<string>;
}

const newToken = (): string => randomBytes(18).toString('base64url');
export const newSessionKey = (): string => randomBytes(32).toString('base64url');

/** `onNewToken` is told every token that replaces a used one. */
export function operatorSession(sessionKey: string, onNewToken: (token: string) => void): OperatorSession {
  const key = Buffer.from(sessionKey, 'base64url');
  let current = newToken();
  const payloadOf = async (cookieHeader: string | undefined): Promise<JWTPayload | null> => {
    const signed = cookieOf(cookieHeader ?? '', SESSION_COOKIE);
    if (signed === null) return null;
    try {
      const { payload } = await jwtVerify(signed, key, { issuer: ISSUER, algorithms: ['HS256'] });
      return payload;
    } catch {
      return null; // expired, or signed by another server
    }
  };
  return {
    token: () => current,
    login: async (token, secure) => {
      if (!isSame(token, current)) return null;
      current = newToken();
      onNewToken(current);
      const signed = await new SignJWT({ role: 'operator' })
        .setProtectedHeader({ alg: 'HS256' })
        .setIssuer(ISSUER)
        .setIssuedAt()
        .setJti(randomBytes(3).toString('hex'))
        .setExpirationTime(`${SESSION_DAYS}d`)
        .sign(key);
      const flags = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${SESSION_DAYS * 86_400}${secure ? '; Secure' : ''}`;
      return `${SESSION_COOKIE}=${signed}; ${flags}`;
    },
    isOperator: async (cookieHeader) => (await payloadOf(cookieHeader))?.role === 'operator',
    nameOf: async (cookieHeader) => (await payloadOf(cookieHeader))?.jti ?? 'unnamed',
  };
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function cookieOf(header: string, name: string): string | null {
  for (const part of header.split(';')) {
    const [key, value] = part.trim().split('=', 2);
    if (key === name && value) return value;
  }
  return null;
}
