/** What a fault is called where there was no room. */
import { expect, test } from 'vitest';
import { NoRoom } from '../../../swarm/memory/bufferSpec.ts';
import { faultOf } from './epochs.ts';

test('no room on the GPU is the donor’s own: out of memory, in the sentence that names the buffer', () => {
  const sentence = 'layers 0-1: values needs a buffer of 104 bytes, and this GPU allows at most 100';
  expect(faultOf(new NoRoom(sentence))).toEqual(['outOfMemory', sentence]);
});
