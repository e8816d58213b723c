/**
 * Every control of the dashboard, part by part, on a run that is paused: what each is to change is looked for, in numbers
 * where there are any. What is compared with comes from the golden curve, or is worked out from the page's own file.
 */

import type { Locator, Page } from 'playwright';
import { expect } from 'vitest';
import { arrayOf } from '../swarm/base.ts';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { curveFaults } from './fidelity.ts';
import { savedBy } from './pageChecks.ts';

type Part = 'Run' | 'Swarm' | 'Peers' | 'Runs' | 'Samples' | 'Settings';

/** An alert may stand behind the name of a part. */
export const go = (page: Page, part: Part): Promise<void> =>
  page.getByRole('navigation').locator(`a[href="#${part.toLowerCase()}"]`).click();

type CsvRow = Readonly<Record<string, number | null>>;

/** Opens what is folded, where it is not. */
async function unfold(details: Locator): Promise<void> {
  if ((await details.getAttribute('open')) === null) await details.locator('summary').first().click();
}

export const moreCharts = (page: Page): Promise<void> => unfold(page.locator('.more-charts'));

/** What a chart's button saves, as a spreadsheet reads it. What is out of sight is drawn anew once it is looked at. */
async function fileOf(page: Page, title: string): Promise<{ readonly name: string; readonly rows: readonly CsvRow[] }> {
  const chart = page.getByRole('region', { name: title, exact: true });
  await chart.scrollIntoViewIfNeeded();
  await unfold(chart.locator('.numbers'));
  const [, last] = await windowOf(page);
  await chart.getByRole('img', { name: new RegExp(`steps \\d+ to ${last}:`) }).waitFor();
  const { name, text } = await savedBy(page, () => chart.getByRole('button', { name: `CSV of ${title}` }).click());
  const [head = '', ...lines] = text.trimEnd().split('\n');
  const columns = head.split(',');
  const rows = lines.map((line) => {
    const cells = line.split(',');
    expect(cells).toHaveLength(columns.length);
    return Object.fromEntries(columns.map((column, at) => [column, cells[at] === '' ? null : Number(cells[at])]));
  });
  return { name, rows };
}

const FILES = [
  ['Loss', 'loss'],
  ['Speed', 'speed'],
  ['Step time', 'time'],
  ['Gradient norm', 'norm'],
  ['Learning rate', 'rate'],
  ['Donors', 'donors'],
  ['Traffic', 'traffic'],
  ['Traffic by kind', 'kinds'],
  ['Idle share (bubble)', 'idle'],
] as const;

/** All files of the run's charts, step by step beside each other. */
async function filesOf(page: Page, run: string): Promise<CsvRow[]> {
  await moreCharts(page);
  const steps: CsvRow[] = [];
  for (const [title, id] of FILES) {
    const { name, rows } = await fileOf(page, title);
    expect(name).toBe(`${run}-${id}.csv`);
    for (const [at, row] of rows.entries()) steps[at] = { ...steps[at], ...row };
  }
  return steps;
}

const metricsOf = (page: Page, run: string): Promise<CommitRecord[]> =>
  page.evaluate(async (name) => (await (await fetch(`/api/operator/steps?run=${name}`)).json()).steps, run);

/** The files' numbers are the run's: near the golden curve, and the same as the metrics. */
export async function readFiles(page: Page, run: string): Promise<void> {
  const metrics = await metricsOf(page, run);
  const rows = await filesOf(page, run);
  expect(curveFaults(run, metrics.length, rows as unknown as CommitRecord[])).toEqual([]);
  for (const [at, line] of metrics.entries()) {
    const { donors, stages, seconds, bytesDirect, bytesRelayed } = line;
    expect(rows[at]).toMatchObject({ donors, stages, seconds, bytesDirect, bytesRelayed });
    expect(rows[at]?.tokensPerSecond).toBeCloseTo(line.tokens / seconds, 6);
  }
}

/** What is drawn on the loss's canvas, as it is once it is drawn. */
const pictureOf = (page: Page): Promise<string> =>
  page.evaluate(
    () =>
      new Promise<string>((resolve) =>
        requestAnimationFrame(() =>
          requestAnimationFrame(() =>
            resolve(document.querySelector<HTMLCanvasElement>('.plot canvas')?.toDataURL() ?? ''),
          ),
        ),
      ),
  );

async function changesPicture(page: Page, act: () => Promise<void>): Promise<void> {
  const before = await pictureOf(page);
  await act();
  await expect.poll(() => pictureOf(page)).not.toBe(before);
}

async function windowOf(page: Page): Promise<readonly [from: number, to: number]> {
  const text = (await page.getByText(/^Steps [\d,]+ to [\d,]+\./).textContent()) ?? '';
  const [from = 0, to = 0] = (/^Steps (\S+) to ([\d,]+)/.exec(text)?.slice(1) ?? []).map((each) =>
    Number(each.replaceAll(',', '')),
  );
  return [from, to];
}

/** Over the loss's plot, from one share of its width to another one. */
async function drag(page: Page, from: number, to: number): Promise<void> {
  const plot = page.locator('.plot .u-over').first();
  await plot.scrollIntoViewIfNeeded();
  const { x = 0, y = 0, width = 0, height = 0 } = (await plot.boundingBox()) ?? {};
  await page.mouse.move(x + from * width, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + to * width, y + height / 2, { steps: 4 });
  await page.mouse.up();
}

/** Closer and wider, along, and back to all, by the pointer and by buttons. */
export async function lookCloser(page: Page): Promise<void> {
  const press = (name: string): Promise<void> => page.getByRole('button', { name, exact: true }).click();
  const [first, last] = await windowOf(page);
  expect(first).toBe(1);
  await drag(page, 0.25, 0.75);
  const [from, to] = await windowOf(page);
  const quarter = (last - first) / 4;
  expect(Math.abs(from - (first + quarter))).toBeLessThanOrEqual(1);
  expect(Math.abs(to - (last - quarter))).toBeLessThanOrEqual(1);
  const { rows } = await fileOf(page, 'Loss');
  expect(rows.map(({ step }) => Number(step) + 1)).toEqual(arrayOf(to - from + 1, (at) => from + at));

  await page.keyboard.down('Shift');
  await drag(page, 0.1, 0.9);
  expect(await windowOf(page)).toEqual([first, first + to - from]);
  await drag(page, 0.9, 0.1);
  const [later, end] = await windowOf(page);
  await page.keyboard.up('Shift');
  expect(later).toBeGreaterThan(first);
  expect(end - later).toBe(to - from);

  await page.locator('.plot .u-over').first().dblclick();
  expect(await windowOf(page)).toEqual([first, last]);
  await press('Closer');
  const [near, far] = await windowOf(page);
  expect(far - near).toBeLessThan(last - first);
  await press('Earlier');
  expect((await windowOf(page))[0]).toBeLessThan(near);
  await press('Later');
  await press('Later');
  expect((await windowOf(page))[1]).toBe(last);
  await press('Wider');
  const [left, right] = await windowOf(page);
  expect(right - left).toBeGreaterThan(far - near);
  await press('Closer');
  await press('All steps');
  expect(await windowOf(page)).toEqual([first, last]);
}

/** In a tab that nobody sees no chart is drawn; who comes back sees the newest one. `further`: until a few more steps are done. */
export async function restWhileHidden(page: Page, further: () => Promise<unknown>): Promise<void> {
  const hide = (isHidden: boolean): Promise<void> =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, isHidden);
  await hide(true);
  // What was on its way to the screen comes there first.
  await further();
  const before = await pictureOf(page);
  await further();
  expect(await pictureOf(page)).toBe(before);
  await hide(false);
  await expect.poll(() => pictureOf(page)).not.toBe(before);
}

/** How the lines are drawn. */
export async function chooseLines(page: Page): Promise<void> {
  const smoothing = page.getByLabel('Smoothing');
  await changesPicture(page, () => smoothing.fill('0'));
  const { rows } = await fileOf(page, 'Loss');
  expect(rows.map(({ smoothedLoss }) => smoothedLoss)).toEqual(rows.map(({ loss }) => loss));
  await smoothing.fill('0.6');
  await changesPicture(page, () => page.getByLabel('Logarithmic loss').click());
  await page.getByLabel('Logarithmic loss').click();
  for (const mark of ['Joined', 'Checkpoint', 'New plan']) {
    const box = page.getByRole('group', { name: 'Marks' }).getByLabel(mark);
    await changesPicture(page, () => box.click());
    await box.click();
  }
  const chart = page.getByRole('region', { name: 'Step time' });
  await unfold(chart.locator('.numbers'));
  await chart.getByRole('columnheader', { name: 'slowest 5 % (p95)' }).waitFor();
}

/** Another run's curve in the same charts, and gone again. */
export async function compareWith(page: Page, run: string): Promise<void> {
  await moreCharts(page);
  const box = page.getByRole('group', { name: 'Compare with' }).getByLabel(run);
  await box.check();
  await page.getByRole('img', { name: new RegExp(`^Loss, .*; ${run} from 5\\.\\d+ to `) }).waitFor();
  await page.getByRole('region', { name: 'Gradient norm' }).locator('.keys').getByText(run).waitFor();
  await box.uncheck();
  await page.locator('.keys').getByText(run).first().waitFor({ state: 'detached' });
}

/** A past step, its plan, and one micro-batch's way through it. */
export async function scrub(page: Page): Promise<void> {
  const step = page.getByRole('slider', { name: 'Step', exact: true });
  const first = Number(await step.getAttribute('min'));
  await step.fill(String(first));
  await page.getByText(new RegExp(`^Step ${first} took `)).waitFor();
  expect(await page.getByLabel('Follow the newest step').isChecked()).toBe(false);
  await page.getByRole('heading', { name: /^Map of plan \d/ }).waitFor();
  await page.getByLabel('Follow a part of the samples').selectOption({ index: 1 });
  const way = page.getByRole('region', { name: 'Its way through the donors' });
  await way.getByRole('rowheader', { name: /forward/ }).waitFor();
  await way.getByRole('rowheader', { name: /backward/ }).waitFor();
  await page.getByLabel('Follow a part of the samples').selectOption({ label: 'all' });
  await way.waitFor({ state: 'detached' });
  await page.getByLabel('Follow the newest step').check();
}

/** The table's order, a donor's card, and another swarm. */
export async function lookAtPeers(page: Page): Promise<void> {
  for (const column of ['Donor', 'State', 'Samples', 'Layer time', 'Memory', 'Tokens', 'Faults']) {
    const head = page.getByRole('columnheader', { name: column });
    const orders: (string | null)[] = [null];
    for (let press = 0; press < 2; press++) {
      await head.getByRole('button').click();
      await expect.poll(() => head.getAttribute('aria-sort')).not.toBe(orders.at(-1));
      orders.push(await head.getAttribute('aria-sort'));
    }
    expect(orders.slice(1).toSorted()).toEqual(['ascending', 'descending']);
  }
  await page.getByRole('button', { name: /^More of/ }).click();
  const card = page.getByRole('region', { name: /^Donor \S+$/ });
  for (const question of ['Let go now', 'Block its address']) {
    const opener = card.getByRole('button', { name: question, exact: true });
    const no = card.getByRole('button', { name: 'No', exact: true });
    for (const say of [() => page.keyboard.press('Escape'), () => no.click()]) {
      await opener.click();
      await card.getByRole('button', { name: `Yes, ${question.toLowerCase()}` }).waitFor();
      await say();
      // Where the keyboard was, it is again.
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe(question);
    }
  }
  await card.getByRole('button', { name: 'Close' }).click();
  await card.waitFor({ state: 'detached' });

  const form = page.getByRole('form', { name: 'What if' });
  await form.getByLabel('More donors').fill('1');
  await form.getByLabel('Like whom').selectOption({ index: 0 });
  for (const field of ['Upload of each', 'Download of each', 'Rate of links', 'Delay of links', 'Memory of each'])
    await form.getByLabel(field).selectOption(field === 'Delay of links' ? '0.5' : '2');
  await form.getByRole('button', { name: 'Predict' }).click();
  await form.getByText(/^Without the change: .* The change makes /).waitFor();
  // Whoever stays alone does the step alone: without the only one there is nobody.
  await form.getByLabel('More donors').fill('0');
  await form.getByLabel('Without').selectOption({ index: 1 });
  await form.getByRole('button', { name: 'Predict' }).click();
  await form.getByRole('status').getByText('✕').waitFor();
  await form.getByLabel('Without').selectOption('');
}

/** That of the only donor there is. */
export async function blockAddress(page: Page): Promise<void> {
  await go(page, 'Peers');
  await page.getByRole('button', { name: /^More of/ }).click();
  await page.getByRole('button', { name: 'Block its address' }).click();
  await page.getByRole('button', { name: 'Yes, block its address' }).click();
}

const CLUSTER = JSON.stringify({ peers: [{ id: 'lighthouse', memoryBytes: 4e9, flopsPerSecond: 1e12 }] });

/** Drafts from a text and from a checkpoint, planned for donors who are not here; a checkpoint taken along. */
export async function draft(page: Page, run: string): Promise<void> {
  await page.getByRole('button', { name: `New run with its text of ${run}` }).click();
  const form = page.getByRole('form', { name: 'New run' });
  expect(await form.getByRole('combobox', { name: 'Weights', exact: true }).inputValue()).toBe('0');
  await page
    .getByRole('button', { name: new RegExp(`^Clone checkpoint \\d+ of ${run}`) })
    .last()
    .click();
  expect(await form.getByRole('combobox', { name: 'Weights', exact: true }).inputValue()).toMatch(/^[1-9]/);
  await form.getByLabel('Name').fill('cloned');
  for (const [field, value] of Object.entries({
    ...{ Steps: '30', 'Samples a step': '4', 'Tokens a sample': '16', 'Learning rate': '0.002' },
    ...{ 'Warm-up steps': '2', 'Checkpoint every steps': '5', 'Seed of weights and order': '7' },
  }))
    await form.getByLabel(field, { exact: true }).fill(value);
  await form.getByLabel('Rate over the steps').selectOption('constant');
  await form.getByText('Plan for other donors').click();
  await form.getByLabel(/^Cluster file/).fill(CLUSTER);
  await form.getByRole('button', { name: 'Check plan' }).click();
  await form.getByText(/30 steps take about/).waitFor();
  await form.getByRole('rowheader', { name: 'lighthouse' }).waitFor();
  await form.getByRole('combobox', { name: 'Weights', exact: true }).selectOption({ index: 0 });
  await form.getByRole('combobox', { name: 'Text', exact: true }).selectOption({ index: 0 });
  await form.getByRole('button', { name: 'Close' }).click();
  await form.waitFor({ state: 'detached' });
  const link = page.getByRole('link', { name: /^Export checkpoint/ }).first();
  const address = (await link.getAttribute('href')) ?? '';
  const lead = (to: string): Promise<void> => link.evaluate((node, href) => node.setAttribute('href', href), to);
  await lead(address.replace(/step=\d+/, 'step=999'));
  await link.click();
  await page.getByText(/checkpoint 999 of .* is not kept any more/).waitFor();
  await lead(address);
  const download = page.waitForEvent('download');
  await link.click();
  expect((await download).suggestedFilename()).toMatch(new RegExp(`^${run}-\\d+\\.tar$`));
}

/** Every checkpoint after the same words, side by side. */
export async function writeSamples(page: Page): Promise<void> {
  const form = page.getByRole('form', { name: 'Samples' });
  const checkpoint = form.getByLabel('Checkpoint');
  await checkpoint.selectOption({ index: 0 });
  const count = await checkpoint.locator('option').count();
  await form.getByLabel('Tokens').fill('3');
  await form.getByLabel(/^Prompts/).fill('Once');
  await form.getByRole('button', { name: 'Write for every checkpoint' }).click();
  await form.getByText('Written: see below.').waitFor();
  await page.getByRole('columnheader', { name: '“Once”' }).waitFor();
  await expect.poll(() => page.getByRole('rowheader').count()).toBe(count);
}

/** One kind alone, and what came while it was read. */
export async function readHistory(page: Page, happen: () => Promise<unknown>): Promise<void> {
  const happened = page.getByRole('region', { name: 'What happened' });
  await page.getByLabel('Kind').selectOption('checkpoint');
  await expect
    .poll(async () => new Set(await happened.locator('tbody .chip').allTextContents()))
    .toEqual(new Set(['■Checkpoint']));
  await page.getByLabel('Kind').selectOption('all');
  const newer = page.getByRole('button', { name: /^Show \d+ newer$/ });
  await happen();
  await newer.first().click();
  await newer.waitFor({ state: 'detached' });
}

/** As the dashboard itself would, without its buttons. */
export const tell = (page: Page, path: string, body: unknown): Promise<number> =>
  page.evaluate(
    ([to, text]) =>
      fetch(`/api/operator/${to}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: text,
      }).then(({ status }) => status),
    [path, JSON.stringify(body)] as const,
  );
