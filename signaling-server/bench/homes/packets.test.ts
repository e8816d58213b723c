import { expect, test } from 'vitest';
import { frameOf, type Packet, PacketReader } from './packets.ts';

const packet = (fromPort: number, toPort: number, length: number): Packet => ({
  ...{ fromPort, toPort },
  data: Uint8Array.from({ length }, (_, index) => (index * 7 + length) % 256),
});
const PACKETS = [packet(1, 65_535, 0), packet(50_000, 50_001, 1), packet(65_535, 1, 1_200), packet(3, 4, 65_535)];

test.each([1, 5, 6, 7, 1_000, 1_000_000])('packets come out of a stream that is cut every %i bytes', (size) => {
  const stream = Buffer.concat(PACKETS.map(frameOf));
  const reader = new PacketReader();
  const found: Packet[] = [];
  for (let from = 0; from < stream.length; from += size) {
    found.push(
      ...reader.read(stream.subarray(from, from + size)).map((one) => ({ ...one, data: new Uint8Array(one.data) })),
    );
  }
  expect(found).toEqual(PACKETS);
});
