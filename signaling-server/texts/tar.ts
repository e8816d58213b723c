/** The plain files of a tar archive (ustar, as npm packs them): 512-byte headers, each followed by its file's blocks. */
import { invariant } from '../../swarm/base.ts';

const BLOCK_BYTES = 512;
const REGULAR_FILE = ['0', '\0'];

export function filesOfTar(tar: Buffer): Map<string, Buffer> {
  const text = (from: number, to: number) => tar.toString('latin1', from, to).replace(/\0.*$/s, '');
  const files = new Map<string, Buffer>();
  for (let start = 0; start + BLOCK_BYTES <= tar.length && tar[start] !== 0; ) {
    const name = [text(start + 345, start + 500), text(start, start + 100)].filter((part) => part !== '').join('/');
    const bytes = Number.parseInt(text(start + 124, start + 136).trim(), 8);
    const data = start + BLOCK_BYTES;
    if (REGULAR_FILE.includes(tar.toString('latin1', start + 156, start + 157)))
      files.set(name, tar.subarray(data, data + bytes));
    start = data + Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
  }
  return files;
}

/** The header of a plain file: `folder/file`, or a file alone. */
export function tarHeader(name: string, size: number): Buffer {
  invariant(
    name.split('/').every((part) => Buffer.byteLength(part) <= 100),
    'a tar name fits its fields',
  );
  const header = Buffer.alloc(BLOCK_BYTES);
  const cut = Buffer.byteLength(name) <= 100 ? -1 : name.indexOf('/');
  header.write(name.slice(cut + 1), 0, 100, 'utf8');
  if (cut >= 0) header.write(name.slice(0, cut), 345, 155, 'utf8');
  const octal = (value: number, at: number, width: number): void => {
    header.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at, 'latin1');
  };
  octal(0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  if (size < 8 ** 11) octal(size, 124, 12);
  else {
    // Larger than eleven octal digits say: in base 256, as GNU tar writes it.
    header.writeUInt8(0x80, 124);
    header.writeBigUInt64BE(BigInt(size), 128);
  }
  octal(0, 136, 12);
  header.write('ustar\x0000', 257, 'latin1');
  header.write('0', 156, 'latin1');
  header.fill(' ', 148, 156);
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return header;
}

/** What follows a file of this size, up to a whole block. */
export const tarPadding = (size: number): Buffer => Buffer.alloc((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES);
