/** A STUN server's one answer (RFC 8489): by which address and port the world sees who asks. */

export const STUN_PORT = 3478;
const BINDING_REQUEST = 0x0001;
const BINDING_SUCCESS = 0x0101;
const XOR_MAPPED_ADDRESS = 0x0020;
const MAGIC_COOKIE = 0x2112a442;
const HEADER = 20;
const IPV4 = 1;

/** Null: this is no question. `address`: of IPv4. */
export function stunAnswer(request: Buffer, address: string, port: number): Buffer | null {
  if (request.length < HEADER || request.readUInt16BE(0) !== BINDING_REQUEST) return null;
  if (request.readUInt32BE(4) !== MAGIC_COOKIE) return null;
  const answer = Buffer.alloc(HEADER + 12);
  answer.writeUInt16BE(BINDING_SUCCESS, 0);
  answer.writeUInt16BE(12, 2);
  request.copy(answer, 4, 4, HEADER); // the cookie, and the question's number
  answer.writeUInt16BE(XOR_MAPPED_ADDRESS, HEADER);
  answer.writeUInt16BE(8, HEADER + 2);
  answer.writeUInt8(IPV4, HEADER + 5);
  answer.writeUInt16BE((port ^ (MAGIC_COOKIE >>> 16)) & 0xffff, HEADER + 6);
  const bytes = address.split('.').reduce((number, part) => number * 256 + Number(part), 0);
  answer.writeUInt32BE((bytes ^ MAGIC_COOKIE) >>> 0, HEADER + 8);
  return answer;
}
