import { expect, it } from 'vitest';
import { runCardSchema } from './about.ts';

const isTaken = (own: Partial<Record<'purpose' | 'link', string>>): boolean =>
  runCardSchema.safeParse({ purpose: '', text: '', licence: '', link: '', ...own }).success;

it('takes plain words and pages of the web, nothing that moves a terminal, turns text or passes for another site', () => {
  expect(isTaken({ purpose: 'For a class.\nÄ 🐟 שלום', link: 'https://example.org/a?b=c#d' })).toBe(true);
  for (const purpose of ['\u001b[2J', 'a\u0000', 'a\u202eb', '\u2066a'])
    expect(isTaken({ purpose }), purpose).toBe(false);
  for (const link of ['javascript:alert(1)', 'https://example.org@evil.example/', 'ftp://example.org', 'example.org'])
    expect(isTaken({ link }), link).toBe(false);
});
