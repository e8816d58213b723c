/** What one router sends another: UDP packets of its home, one after the other in a stream of bytes. */

/** From this port of the sender's home to that port of the receiver's. */
export interface Packet {
  readonly fromPort: number;
  readonly toPort: number;
  readonly data: Uint8Array;
}

const HEADER = 6;

export function frameOf({ fromPort, toPort, data }: Packet): Buffer {
  const bytes = Buffer.allocUnsafe(HEADER + data.length);
  bytes.writeUInt16BE(data.length, 0);
  bytes.writeUInt16BE(fromPort, 2);
  bytes.writeUInt16BE(toPort, 4);
  bytes.set(data, HEADER);
  return bytes;
}

/** Takes the stream as it comes, however it is cut, and gives the packets in order. */
export class PacketReader {
  #rest = Buffer.alloc(0);

  read(bytes: Uint8Array): Packet[] {
    const all = Buffer.concat([this.#rest, bytes]);
    const packets: Packet[] = [];
    let from = 0;
    while (from + HEADER <= all.length) {
      const end = from + HEADER + all.readUInt16BE(from);
      if (end > all.length) break;
      packets.push({
        fromPort: all.readUInt16BE(from + 2),
        toPort: all.readUInt16BE(from + 4),
        data: all.subarray(from + HEADER, end),
      });
      from = end;
    }
    this.#rest = all.subarray(from);
    return packets;
  }
}
