import { expect, test } from 'vitest';
import { milestoneText, pagesOf } from './donorsShoal.tsx';

test('milestones are a first step, pages and hours, in words', () => {
  expect(milestoneText({ pages: 0, seconds: 99 })).toBe(null);
  expect(milestoneText({ pages: 0.2, seconds: 9 })).toBe('Your first step is part of the model. Next: a book page.');
  expect(milestoneText({ pages: 120, seconds: 9 })).toBe(
    'The model has read 100 book pages with your GPU. Next: 1,000 book pages.',
  );
  expect(milestoneText({ pages: 120, seconds: 9, isOver: true })).toBe(
    'The model has read 100 book pages with your GPU.',
  );
  expect(milestoneText({ pages: 2e6, seconds: 7_300 })).toBe(
    'The model has read 1.00M book pages with your GPU, and you have trained for 2 hours.',
  );
});

test('a byte is a character of a page, another token about four', () => {
  expect(pagesOf(1_800, 256)).toBe(1);
  expect(pagesOf(900, 50_257)).toBe(2);
});
