/** Comparing what someone says with what the server keeps to itself. */
import { hash, timingSafeEqual } from 'node:crypto';

const hashOf = (text: string): Buffer => hash('sha256', text, 'buffer');

/** In the same time whatever is said, so that nobody can find it out letter by letter. */
export const isSameSecret = (said: string, kept: string): boolean => timingSafeEqual(hashOf(said), hashOf(kept));
