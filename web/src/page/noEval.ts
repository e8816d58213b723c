/**
 * The first import of every page and worker. The server's policy lets no text become code; zod would try once whether it
 * may, and the browser would report that as a violation: it is told beforehand.
 */
import { z } from 'zod';

z.config({ jitless: true });
