import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openTokenizer } from '../texts/tokenizer.ts';
import { byteTokenizer, letters } from './exportRun.ts';

test('the ids of the byte tokenizer are the bytes, as many as the model has, by the library that others read it with', async () => {
  expect(new Set(letters()).size).toBe(256);
  const folder = mkdtempSync(join(tmpdir(), 'shoal-bytes-'));
  const path = join(folder, 'tokenizer.json');
  writeFileSync(path, byteTokenizer(300));
  const opened = await openTokenizer(path);
  if (!opened.ok) throw new Error(opened.reason);
  const text = 'The whale! \n\tNaïve — 鯨 🐋\u0000';
  const ids = await opened.value.encode(text);
  expect(ids).toEqual([...Buffer.from(text)]);
  expect(await opened.value.decode(ids)).toBe(text);
  expect(opened.value.ids).toBe(256);
  opened.value.close();
  writeFileSync(path, byteTokenizer(128));
  const half = await openTokenizer(path);
  if (!half.ok) throw new Error(half.reason);
  expect(half.value.ids).toBe(128);
  expect(await half.value.encode('a , b\n')).toEqual([...Buffer.from('a , b\n')]);
  half.value.close();
  rmSync(folder, { recursive: true });
});
