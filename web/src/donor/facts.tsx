/** What a person should know before the click, and may read again at any time. */
import { type LocalNetwork, localNetworkFact } from './localNetwork.ts';
import { minuteText } from './work.ts';

export interface FactsProps {
  /** Who runs this server, as far as a browser can know. */
  readonly host: string;
  /** What the run moves for one of its donors, as its server says; null: not known. */
  readonly runMinuteBytes: number | null;
  /** What this tab's own steps move; null: it has done none. */
  readonly minuteBytes: number | null;
  readonly relayOnly: boolean;
  readonly localNetwork: LocalNetwork;
}

const DIRECT =
  'Donors are connected directly, so the other donors of the run, and the server, can see your IP address and the name of your GPU. With “Hide my IP address from other donors” under Limits only the server sees it, and the connections are slower.';
const RELAYED =
  'Only the server sees your IP address: you chose to hide it from the other donors. They see an id that is new with each connection; the server tells its operator the name of your GPU.';
const NAMED = ' Your name is known to nobody, unless you choose one for the leaderboard.';

function trafficFact({ runMinuteBytes, minuteBytes }: FactsProps): string {
  if (minuteBytes !== null) return `Your part of this run moves ${minuteText(minuteBytes)}.`;
  if (runMinuteBytes !== null)
    return `Now this run moves ${minuteText(runMinuteBytes)} for each donor. You can cap it.`;
  return 'Data flows both ways all the time, how much depends on the model: it is shown as measured, and you can cap it.';
}

function facts(props: FactsProps): readonly (readonly [string, string])[] {
  const { host, relayOnly, localNetwork } = props;
  const asked = localNetworkFact(localNetwork, relayOnly);
  return [
    [
      'What runs',
      'GPU programs (WebGPU shaders) that come with this page and compute a part of a language model. They see the training text and the model, and nothing else of your computer: no files, no other tabs.',
    ],
    [
      'For whom',
      `Whoever runs ${host}: they chose the model and the text, and they keep the result. You are not paid.`,
    ],
    [
      'What it costs',
      `Power, heat, perhaps a loud fan: a laptop’s GPU draws some 15 to 60 watts at full load, a desktop’s 100 to 400; at half the GPU time it is about half of that. Prefer mains power. ${trafficFact(props)}`,
    ],
    ['What others see', (relayOnly ? RELAYED : DIRECT) + NAMED],
    ...(asked === null ? [] : [asked]),
    [
      'What it never does',
      'It installs nothing, reads no files, mines no coins, shows no ads, and never starts by itself: not now, not on your next visit. Only a tab that is loaded anew while it donates goes on, and says so.',
    ],
    [
      'How to stop',
      'Pause and Leave finish the step and hand your part over first; Pause now, or closing the tab, stops everything at once.',
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
