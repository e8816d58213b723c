/** This page, to hand on: its link, as a code for a phone too. Asks for friends only where more GPUs would help. */
import { useMemo, useState } from 'preact/hooks';
import { encode } from 'uqr';
import { invitedLink } from '../page/ask.ts';
import { Press } from '../page/parts.tsx';
import { Folded } from '../page/stacks.tsx';
import { isThisComputer } from '../page/thisComputer.ts';

interface ShareProps {
  readonly invite: string | null;
  readonly run: string;
  /** Nobody waits for a place. */
  readonly wantsMore: boolean;
}

/** Light modules on each side, as scanners want it. */
const QUIET = 4;

export function Share({ invite, run, wantsMore }: ShareProps) {
  const [answer, say] = useState('');
  const link = location.origin + invitedLink('/', invite);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(link);
      say('Copied.');
    } catch {
      say('The browser didn’t allow that. Select the link and copy it.');
    }
  };
  const share = async (): Promise<void> => {
    await navigator.share({ title: `Help train ${run}`, url: link }).catch(() => undefined);
  };
  return (
    <Folded class="card share" summary={wantsMore ? 'Invite a friend' : 'Share this page'}>
      {() => (
        <div class="share-body">
          <Code text={link} />
          <div>
            <p>
              {wantsMore
                ? 'Another GPU may help. Send this link, or let a phone’s camera read the code and pass it on.'
                : 'There are enough GPUs for now, and whoever comes waits on standby. The link shows how it goes.'}
            </p>
            {isThisComputer(location.host) && (
              <p>This address works on this computer alone. Ask whoever runs the server for the one to share.</p>
            )}
            <p class="link-text">
              <a href={link}>{link}</a>
            </p>
            <div class="buttons">
              <Press onPress={() => void copy()}>Copy the link</Press>
              {'share' in navigator && <Press onPress={() => void share()}>Share…</Press>}
              <span role="status" class="soft small">
                {answer}
              </span>
            </div>
          </div>
        </div>
      )}
    </Folded>
  );
}

function Code({ text }: { readonly text: string }) {
  const path = useMemo(() => {
    const { data, size } = encode(text, { border: 0 });
    const dark = data.map((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : '')).join('')).join('');
    return { dark, size };
  }, [text]);
  const whole = path.size + 2 * QUIET;
  return (
    <svg class="qr" viewBox={`${-QUIET} ${-QUIET} ${whole} ${whole}`} role="img" aria-label="The link as a QR code">
      <rect x={-QUIET} y={-QUIET} width={whole} height={whole} fill="#fff" />
      <path d={path.dark} fill="#000" shape-rendering="crispEdges" />
    </svg>
  );
}
