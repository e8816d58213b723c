import { FISH } from '../../../swarm/shoalPlaces.ts';

/** The tab's icon in the colour of a state; its title has the same in words. */
const COLOURS: Readonly<Record<string, string>> = { good: '#17693b', wait: '#b26a00', bad: '#a3262a', calm: '#5b6b74' };
const PLACES = ['19 9', '10.5 16.5', '20.5 24'];

export function iconOf(tone: string): string {
  const fish = PLACES.map((place) => `<path d="${FISH}" transform="translate(${place}) scale(.7)"/>`).join('');
  const ground = `<rect width="32" height="32" rx="7" fill="${COLOURS[tone] ?? COLOURS.calm}"/>`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${ground}<g fill="#fff">${fish}</g></svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
