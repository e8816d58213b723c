import { expect, test } from 'vitest';
import { EMPTY_CARD } from '../../../swarm/messages/about.ts';
import { byText, foldedText, hereText, leftText } from './runWords.tsx';

test('who trains the run is said in its operator’s words, else whose server it is', () => {
  expect(byText({ ...EMPTY_CARD, by: 'class 7b' }, 'localhost:8080')).toBe('Run by class 7b.');
  for (const card of [null, EMPTY_CARD]) {
    expect(byText(card, 'shoal.example')).toBe('Run by whoever set up shoal.example.');
    expect(byText(card, 'localhost:8080')).toBe('You run it yourself, from this computer.');
  }
});

test('the time that is left is that of the steps to come at the pace of the newest ones', () => {
  const about = { stepTargets: 1024 };
  const status = { committedSteps: 100, steps: 400, tokensPerSecond: 256, phase: 'training' as const };
  // 300 steps of 1,024 tokens at 256 a second.
  expect(leftText(status, about)).toBe('About 20 min left at this pace.');
  expect(leftText({ ...status, tokensPerSecond: null }, about)).toBe('');
  expect(leftText({ ...status, phase: 'finished' }, about)).toBe('');
  expect(leftText(status, null)).toBe('');
});

test('a long purpose is folded between two words', () => {
  expect(foldedText('To read whales.', 80)).toBe('To read whales.');
  const words = 'Whales and what is written of them. '.repeat(3);
  expect(foldedText(words, 80)).toBe('Whales and what is written of them. Whales and what is written of them. Whales…');
  expect(foldedText('x'.repeat(200), 80)).toBe(`${'x'.repeat(80)}…`);
});

test('a run that waits for its server to save was not paused by its operator', () => {
  const paused = { phase: 'paused', donors: 0, committedSteps: 4 } as const;
  expect(hereText(paused, false)).toBe('Paused by its operator.');
  expect(hereText({ ...paused, cannotSave: true }, false)).toBe('It waits: the server can’t save right now.');
});
