/**
 * What donors are called, and how a tab that comes back proves which donor it was. A name is two words that follow from the
 * key that the donor's browser remembers, so that a person finds the same donor on every page, in reports and logs, and at its
 * next visit. Whoever else has these words, and the same donor's next visit, gets a number behind them. The words come from a
 * keyed hash: a name says nothing of the key, and nobody can look for a key that gives a certain name.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { at, type PeerId, peerId } from '../../swarm/base.ts';
import { storageProblem } from '../files/storageProblem.ts';
import { NAME_SECRET, RESUME_SECRET, type Store } from '../store/store.ts';

const MANNERS = words(`
  amber ashen azure balmy beige black blond blue bold brave breezy bright brisk bronze brown calm candid cheery
  chilly clear clever cobalt cool copper coral cosy cream crimson crisp curious cyan dapper daring dawn deep dusky
  eager early easy ebony emerald fair fearless fleet fluent fond frank free fresh frosty gentle gilded glad golden
  grand green grey happy hardy hazel honest humble indigo ivory jade jolly keen kind lilac lime lively loyal lucid
  lucky lunar maroon mellow merry mild mint misty modest navy neat nimble noble ochre olive opal patient pearly
  pink placid plum polar proud purple quick quiet rapid red rosy ruby russet sage sandy scarlet serene shiny
  silent silver sleek slate smart smooth snowy solar steady still sunny swift tawny teal tender tidy topaz
  tranquil umber velvet violet vivid warm white wise witty young zesty`);
const ANIMALS = words(`
  anchovy angler barbel bass beluga blenny bonito bream brill burbot carp catfish char chub cisco clam cobia cod
  conch coral crab cray dab dace danio darter dolphin dory drum eel elver fluke gar goby gourami grayling grouper
  gudgeon gunnel guppy gurnard haddock hake halibut herring hoki huchen ide jack kelp killi kipper koi krill
  lamprey ling loach lobster lumpfish mackerel manta marlin minnow molly moray mullet mussel narwhal nautilus
  octopus oarfish opah orca orfe otter oyster parr perch pike pilchard plaice pollock pompano porgy porpoise prawn
  puffer ray redfish remora roach ruffe salmon sardine scad scallop sculpin seal shad shark shrimp skate smelt
  smolt snapper snook sole sprat squid starfish sturgeon sunfish tang tarpon tench tetra tilapia trout tuna turbot
  urchin vendace wahoo walleye walrus weever whale whelk whiting wrasse zander`);

function words(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}

const newSecret = (): string => randomBytes(32).toString('base64url');

/** The secrets are the data directory's, so a server that was killed knows its donors again. */
export function resumeKeys(store: Store, run: string): (peer: PeerId) => string {
  const secret = store.secret(RESUME_SECRET, newSecret);
  return (peer) => createHmac('sha256', secret).update(`${run} ${peer}`).digest('base64url');
}

/** A name that no other donor of the run ever had. `key`: absent where a browser remembers nothing, whose words are drawn. */
export function donorNames(store: Store, run: string): (key: string | undefined) => PeerId {
  const secret = store.secret(NAME_SECRET, newSecret);
  return (key = newSecret()) => {
    const drawn = createHmac('sha256', secret).update(key).digest();
    const name = [MANNERS, ANIMALS]
      .map((list, place) => at(list, drawn.readUInt32BE(4 * place) % list.length))
      .join('-');
    try {
      const visits = store.visits(run, name);
      return peerId(visits === 1 ? name : `${name}-${visits}`);
    } catch (error) {
      if (storageProblem(error) === null) throw error;
      // The count cannot be kept: a number that nobody else draws stands for it.
      return peerId(`${name}-${randomBytes(6).toString('hex')}`);
    }
  };
}
