/** What a person should know before the click, and may read again at any time. */
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import { isThisComputer } from '../page/thisComputer.ts';
import { type LocalNetwork, localNetworkFact } from './localNetwork.ts';
import { expectedMinuteText, minuteText } from './work.ts';

export interface FactsProps {
  /** Who runs this server, as far as a browser can know. */
  readonly host: string;
  /** What the run moves for one of its donors, as its server says; null: not known. */
  readonly expected: PublicStatus['minuteTraffic'];
  /** What this tab's own steps move; null: it has done none. */
  readonly minuteBytes: number | null;
  readonly relayOnly: boolean;
  /** The run's first and last stage, which see the text, are the operator's own donors' alone. */
  readonly hasOwnEnds: boolean;
  readonly localNetwork: LocalNetwork;
}

const DIRECT =
  'Donors are connected directly. So the other donors and the server can see your IP address and the name of your GPU. With “Hide my IP address from other donors” under Limits only the server sees it, and connections are slower.';
const RELAYED =
  'Only the server sees your IP address, because you hide it from the other donors. They see a random id, new with each connection. The operator sees the name of your GPU.';
const NAMED = ' You’re anonymous unless you pick a name for the leaderboard.';

function trafficFact({ expected, minuteBytes }: FactsProps): string {
  if (minuteBytes !== null)
    return `Between donors your part moves ${minuteText(minuteBytes)}. What the server gets besides stands under Details.`;
  if (expected?.isMeasured) return `Right now each donor moves ${minuteText(expected.bytes)}. You can cap it.`;
  if (expected) return `Your part would move ${expectedMinuteText(expected)}. You can cap it.`;
  return 'Data flows both ways all the time. How much depends on the model. You’ll see it measured, and you can cap it.';
}

const forWhom = (host: string): string =>
  isThisComputer(host) ? 'For whoever started Shoal on this computer.' : `For whoever runs ${host}.`;

const sees = (hasOwnEnds: boolean): string =>
  hasOwnEnds
    ? 'They see a part of the model and numbers that stand for the text, from which much of it can still be guessed; the text itself goes to the operator’s own donors alone. They see nothing else on your computer'
    : 'They see the training text and the model, and nothing else on your computer';

function facts(props: FactsProps): readonly (readonly [string, string])[] {
  const { host, relayOnly, localNetwork } = props;
  const asked = localNetworkFact(localNetwork, relayOnly);
  return [
    [
      'What runs',
      `Small GPU programs (WebGPU shaders) that come with this page and compute a part of a language model. ${sees(props.hasOwnEnds)}: no files, no other tabs. In idle moments they also answer questions that people ask the model, unless you switch that off under Limits.`,
    ],
    ['For whom', `${forWhom(host)} They chose the model and the text, and they keep the result. You are not paid.`],
    [
      'What it costs',
      `Electricity, heat, perhaps a loud fan. At full load a laptop’s GPU draws some 15 to 60 watts, a desktop’s 100 to 400. At half the GPU time it’s about half of that. Plug your laptop in, if you can. ${trafficFact(props)}`,
    ],
    ['What others see', (relayOnly ? RELAYED : DIRECT) + NAMED],
    ...(asked === null ? [] : [asked]),
    [
      'What it never does',
      'It installs nothing, reads no files, mines no coins and shows no ads. It never starts by itself, not now and not on your next visit. Only a tab that you reload while it donates goes on, and says so.',
    ],
    [
      'How to stop',
      'Pause and Leave finish the step and hand over your part first. “Pause now”, or closing the tab, stops everything at once.',
    ],
  ];
}

export function Facts(props: FactsProps) {
  return (
    <dl class="facts">
      {facts(props).map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}
