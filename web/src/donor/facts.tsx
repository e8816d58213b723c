/** What a person should know before the click, and may read again at any time. */
import { type LocalNetwork, localNetworkFact } from './localNetwork.ts';
import { minuteRangeText, minuteText } from './work.ts';

export interface FactsProps {
  /** Who runs this server, as far as a browser can know. */
  readonly host: string;
  readonly minuteBytes: number | null;
  readonly relayOnly: boolean;
  readonly localNetwork: LocalNetwork;
}

const DIRECT =
  'Donors are connected directly, so the other donors of the run, and the server, can see your IP address and the name of your GPU. With “Hide my IP address from other donors” under Limits only the server sees it, and the connections are slower.';
const RELAYED =
  'Only the server sees your IP address: you chose to hide it from the other donors. They see an id that is new with each connection; the server tells its operator the name of your GPU.';
const NAMED = ' Your name is known to nobody, unless you choose one for the leaderboard.';

function trafficFact(minuteBytes: number | null): string {
  if (minuteBytes !== null) return `Measured here most recently: ${minuteText(minuteBytes)}.`;
  return `Data flows both ways all the time: even a tiny model moves some ${minuteRangeText(40, 130)}; a large one takes what your line gives. It is shown as measured, and you can cap it.`;
}

function facts({ host, minuteBytes, relayOnly, localNetwork }: FactsProps): readonly (readonly [string, string])[] {
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
      `Power, heat, perhaps a loud fan: a laptop’s GPU draws some 15 to 60 watts at full load, a desktop’s 100 to 400; at half the GPU time it is about half of that. Prefer mains power. ${trafficFact(minuteBytes)}`,
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
