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
export interface Previewed {
  readonly status: PublicStatus | null;
  readonly purpose: string;
}

/** For the head of the donor's page. */
export function previewTags({ status, purpose }: Previewed, origin: string): string {
  const title = status === null ? 'Help train a language model' : `Help train ${status.run}`;
  const { donors = 0, committedSteps = 0, steps = 0 } = status ?? {};
  const isOver = status?.phase === 'finished';
  const how = isOver
    ? `All ${counted(steps, 'step')} are done.`
    : `Step ${groupedText(committedSteps)} of ${groupedText(steps)}, ${donors === 0 ? 'waiting for the first GPU' : `${counted(donors, 'GPU')} training`}.`;
  const words =
    purpose || 'Many browsers train one language model together. Yours can help: one click, nothing is installed.';
  const tags = {
    'og:type': 'website',
    'og:site_name': 'Shoal',
    'og:title': title,
    'og:description': status === null ? words : `${words} ${how}`,
    'og:url': `${origin}/`,
    'og:image': `${origin}/preview.png`,
    'og:image:width': String(PREVIEW_WIDTH),
    'og:image:height': String(PREVIEW_HEIGHT),
    'og:image:alt': 'The donors of the run as fish, and under them its loss, which falls',
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
  const shown = { donors: 0, curve: [] as PublicStatus['curve'], key: '' };
  const draw = keptWhile(
    () => shown.key,
    () => previewPicture(shown),
  );
  app.get('/preview.png', perMinute(PICTURES_PER_MINUTE), async (request, reply) => {
    // Of a run that is not everybody's the fish have nobody in them.
    const seen = visible.refusal('status', request) === null ? status() : null;
    shown.donors = seen?.donors ?? 0;
    shown.curve = seen?.curve ?? [];
    shown.key = seen === null ? '' : `${seen.run} ${seen.donors} ${Math.floor(seen.committedSteps / STEPS_A_PICTURE)}`;
    // Where it depends on who asks, a cache on the way would show one what another may see.
    const kept = visible.isPublic('status') ? `public, max-age=${PICTURE_SECONDS}` : 'private, no-store';
    return reply.type('image/png').header('cache-control', kept).send(draw());
  });
}
