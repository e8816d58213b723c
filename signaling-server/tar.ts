/** The plain files of a tar archive (ustar, as npm packs them): 512-byte headers, each followed by its file's blocks. */
const BLOCK_BYTES = 512;
const REGULAR_FILE = ['0', '\0'];

export function filesOfTar(tar: Buffer): Map<string, Buffer> {
  const text = (from: number, to: number) => tar.toString('latin1', from, to).replace(/\0.*$/s, '');
  const files = new Map<string, Buffer>();
  for (let start = 0; start + BLOCK_BYTES <= tar.length && tar[start] !== 0; ) {
    const name = [text(start + 345, start + 500), text(start, start + 100)].filter((part) => part !== '').join('/');
    const bytes = Number.parseInt(text(start + 124, start + 136).trim(), 8);
    const data = start + BLOCK_BYTES;
    if (REGULAR_FILE.includes(String.fromCharCode(tar[start + 156]))) files.set(name, tar.subarray(data, data + bytes));
    start = data + Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
  }
  return files;
}
