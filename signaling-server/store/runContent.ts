/** What a store has of one run: to be put into a store of its own, and back among the others. */
import type { BlobHash } from '../files/blobs.ts';
import { manifestHashes, parseManifest } from './checkpointState.ts';
import type { TableContent } from './content.ts';
import type { Row } from './queries.ts';
import { documentHashes, storedDocument } from './runDocument.ts';
import { BESIDE_SETTING, isSettingOfRun } from './settingStore.ts';
import { ADDRESS_SECRET, NAME_SECRET, RESUME_SECRET, type Store } from './store.ts';

const rowsOf = (content: readonly TableContent[], name: string): readonly Row[] =>
  content.find((table) => table.name === name)?.rows ?? [];

/** Whether a row of these tables is the run's; of the others none is. */
function isOfRun(table: string, row: Row, run: string): boolean {
  if (table === 'run') return row.name === run;
  if (table === 'setting') return isSettingOfRun(row.key, run);
  return row.run === run;
}

/** Also the names of those who worked for it, and the secrets by which donors and addresses are known again. */
export function contentOfRun(content: readonly TableContent[], run: string): TableContent[] {
  const members = new Set(rowsOf(content, 'memberPeer').flatMap((row) => (row.run === run ? [row.member] : [])));
  const isWanted = (table: string, row: Row): boolean => {
    if (table === 'member') return members.has(row.id ?? null);
    return (
      isOfRun(table, row, run) ||
      (table === 'setting' && [ADDRESS_SECRET, NAME_SECRET, RESUME_SECRET].includes(String(row.key)))
    );
  };
  return content.map(({ name, rows }) => ({ name, rows: rows.filter((row) => isWanted(name, row)) }));
}

/** The site's content with that of a run's own store in place of what the site had of it when the run began there. */
export function withRun(site: readonly TableContent[], own: readonly TableContent[], run: string): TableContent[] {
  const members = new Set(rowsOf(site, 'member').map((row) => row.id));
  const taken = (table: string, row: Row): Row[] => {
    if (!isOfRun(table, row, run)) return [];
    if (table === 'run') return [{ ...row, active: 0 }];
    if (table === 'memberPeer') return members.has(row.member ?? null) ? [row] : []; // else the name was given up
    if (table !== 'event') return [row];
    const { id: _id, ...event } = row; // each store counts its own
    return [event];
  };
  return site.map(({ name, rows }) => ({
    name,
    rows: [...rows.filter((row) => !isOfRun(name, row, run)), ...rowsOf(own, name).flatMap((row) => taken(name, row))],
  }));
}

/** No run trains beside another one. */
export const withoutBeside = (content: readonly TableContent[]): TableContent[] =>
  content.map(({ name, rows }) => ({
    name,
    rows: name === 'setting' ? rows.filter(({ key }) => key !== BESIDE_SETTING) : rows,
  }));

/** Files of its texts and of every checkpoint. */
export function runBlobs(store: Store, run: string): ReadonlySet<BlobHash> {
  const manifests = [
    ...store.checkpoints(run).map(({ committedSteps }) => store.checkpoint(run, committedSteps)),
    ...store
      .formerCheckpoints(run)
      .map(({ committedSteps, generation }) => store.checkpoint(run, committedSteps, generation)),
  ].filter((manifest) => manifest !== null);
  const ofStates = manifests.flatMap((manifest) => manifestHashes(parseManifest(manifest)));
  return new Set([...documentHashes(storedDocument(store, run)), ...ofStates]);
}
