/**
 * Breadth-first (Lamy-Poirier 2023): on a looped placement all forwards chunk by chunk, then all backwards, last chunk
 * first. It fills as fast as interleaving and needs a stage's weights once in each direction, where depth-first orders
 * come back to them with every group; the price is gpipe's, every micro-batch in flight. That order is gpipe's own:
 * with stage s on peer s mod p it goes a peer's stages one after the other. See SPEC.md, SC10.
 */
import type { Plan } from '../plan/plan.ts';
import type { Schedule } from './action.ts';
import { gpipe } from './gpipe.ts';

export const breadthFirst = (plan: Plan): Schedule => gpipe(plan);
