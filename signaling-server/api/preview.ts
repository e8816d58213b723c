/** What a link to this server shows where people share it (Open Graph, https://ogp.me): title, words, a picture. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { PublicStatus } from '../../swarm/messages/publicStatus.ts';
import { counted, groupedText } from '../../swarm/quantityText.ts';
import type { Access } from '../http/access.ts';
import { escapedHtml, perMinute } from '../http/calls.ts';
import { keptWhile } from '../http/keptWhile.ts';
import { PREVIEW_HEIGHT, PREVIEW_WIDTH, previewPicture } from './previewPicture.ts';
import type { Visible } from './visible.ts';

const PICTURES_PER_MINUTE = 60;
/** A picture is drawn anew after so many steps. */
const STEPS_A_PICTURE = 10;
const PICTURE_SECONDS = 60;

/** What is known of the run, as far as everybody may see it. */
interface Previewed {
  readonly status: PublicStatus | null;
  readonly purpose: string;
}

const titleOf = (status: PublicStatus | null): string =>
  status === null ? 'Help train a language model' : `Help train ${status.run}`;

function howText({ phase, donors, committedSteps, steps }: PublicStatus): string {
  if (phase === 'finished') return `All ${counted(steps, 'step')} are done`;
  const who = donors === 0 ? 'waiting for the first GPU' : `${counted(donors, 'GPU')} training`;
  return `Step ${groupedText(committedSteps)} of ${groupedText(steps)}, ${who}`;
}

/** For the head of the donor's page. */
export function previewTags({ status, purpose }: Previewed, origin: string): string {
  const words =
    purpose || 'Many browsers train one language model together. Yours can help: one click, nothing is installed.';
  const tags = {
    'og:type': 'website',
    'og:site_name': 'Shoal',
    'og:title': titleOf(status),
    'og:description': status === null ? words : `${words} ${howText(status)}.`,
    'og:url': `${origin}/`,
    'og:image': `${origin}/preview.png`,
    'og:image:width': String(PREVIEW_WIDTH),
    'og:image:height': String(PREVIEW_HEIGHT),
    'og:image:alt': 'The donors of the run as fish, its name and how far it is, and its loss, which falls',
  };
  const lines = Object.entries(tags).map(([name, text]) => `<meta property="${name}" content="${escapedHtml(text)}">`);
  return [...lines, '<meta name="twitter:card" content="summary_large_image">'].join('\n    ');
}

/** As whoever asked knows this server; a name that is none of its own was refused before. */
export const originOf = (
  { protocol, host }: Pick<FastifyRequest, 'protocol' | 'host'>,
  { publicUrl }: Access,
): string => publicUrl ?? `${protocol}://${host}`;

export function addPreviewPicture(app: FastifyInstance, status: () => PublicStatus, visible: Visible): void {
  const shown = { donors: 0, title: '', words: '', curve: [] as PublicStatus['curve'], key: '' };
  const draw = keptWhile(
    () => shown.key,
    () => previewPicture(shown),
  );
  app.get('/preview.png', perMinute(PICTURES_PER_MINUTE), async (request, reply) => {
    // Of a run that is not everybody's the fish have nobody in them.
    const seen = visible.refusal('status', request) === null ? status() : null;
    shown.donors = seen?.donors ?? 0;
    shown.title = titleOf(seen);
    shown.words = seen === null ? 'right in a browser tab' : howText(seen);
    shown.curve = seen?.curve ?? [];
    shown.key = seen === null ? '' : `${seen.run} ${seen.donors} ${Math.floor(seen.committedSteps / STEPS_A_PICTURE)}`;
    // Where it depends on who asks, a cache on the way would show one what another may see.
    const kept = visible.isPublic('status') ? `public, max-age=${PICTURE_SECONDS}` : 'private, no-store';
    return reply.type('image/png').header('cache-control', kept).send(draw());
  });
}
