import { expect, test } from 'vitest';
import { PLAIN_VIEW, viewOf, viewText } from './chartPanel.tsx';
import { sectionOf } from './sections.ts';

test('[OP57] a view of the charts is an address, and the address is that view', () => {
  for (const view of [
    PLAIN_VIEW,
    { window: [100, 250], smoothing: 0.9, isLog: true },
    { window: null, smoothing: 0, isLog: false },
  ] as const) {
    expect(viewOf(viewText(view))).toEqual(view);
    expect(sectionOf(viewText(view))).toBe('run');
  }
  expect(viewText(PLAIN_VIEW)).toBe('#run');
  for (const wrong of [
    '#run?from=9&to=3',
    '#run?from=x&to=3',
    '#run?smooth=2',
    '#run?from=-1&to=3',
    '#run?from=1.5&to=3',
  ])
    expect(viewOf(wrong)).toEqual(PLAIN_VIEW);
});
