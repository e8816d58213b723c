import { outside } from '../base.ts';
import { NOTHING } from '../schedule/policy.ts';

export type Awake = ReturnType<typeof awakePeers>;

/** Peers of which something has changed, the last one first: what a later stage starts, an earlier one sees at once. */
export function awakePeers(count: number) {
  const waiting = new Uint8Array(count);
  const list = new Int32Array(count);
  let length = 0;
  return {
    wake(peer: number): void {
      if (waiting[peer] === 1) return;
      waiting[peer] = 1;
      let index = length++;
      for (; index > 0; index--) {
        const before = list[index - 1] ?? outside(list, index - 1);
        if (before <= peer) break;
        list[index] = before;
      }
      list[index] = peer;
    },
    /** NOTHING, when all are asleep. */
    take(): number {
      if (length === 0) return NOTHING;
      length--;
      const peer = list[length] ?? outside(list, length);
      waiting[peer] = 0;
      return peer;
    },
  };
}
