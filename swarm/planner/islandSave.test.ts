import { expect, it } from 'vitest';
import { islandSave, type Part } from './islandMeeting.ts';
import { savingWords } from './islandWords.ts';

const part = (place: number, primary: number): Part => ({ place, primary, held: primary, free: 0 });

it('[IS118] the island that has a checkpoint uploaded soonest saves it, and owners send it what it lacks', () => {
  const peers = [
    { upload: 100, download: 1_000 },
    { upload: 100, download: 40 },
    { upload: 1_000, download: 1_000 },
  ];
  const costs = { model: { blocks: [{ elements: 1_000 }] }, peers };
  const groups = [[part(0, 1_000)], [part(1, 500), part(2, 500)]];
  // Shared value, velocity and what was published: 12 bytes an element. One uploads 12,000 at 100 a second, of two each half.
  const alone = islandSave(costs, { publish: 'int8' }, groups, groups.flat(), []);
  expect(alone).toEqual({ group: 1, uploadSeconds: 60, bytes: 12_000, meetingSeconds: 0 });
  // 8 bytes an element: the owner of all sends them for 80 s, who has 500 receives them at 40 a second for 100.
  const owned = islandSave(costs, { publish: 'int8' }, groups, groups.flat(), [1, 0, 0]);
  expect(owned.meetingSeconds).toBe(100);
  const [{ text } = { text: '' }] = savingWords(owned, 25);
  expect(text).toMatch(/^Checkpoints are saved every 3 rounds at most: island 2 uploads .* 60 s.*takes 100 s more/);
  expect(savingWords(alone, 60)[0]?.text).toMatch(/^Checkpoints can be saved at every meeting: island 2 uploads/);
  // Over a line without a limit.
  expect(savingWords({ ...alone, uploadSeconds: 0 }, 60)[0]?.text).toBe('Checkpoints can be saved at every meeting.');
  expect(savingWords({ ...alone, uploadSeconds: 86_400 * 30 }, 60)[0]?.text).toContain('in 30 days');
  expect(islandSave(costs, { publish: 'f32' }, groups, groups.flat(), []).uploadSeconds).toBe(40);
});
