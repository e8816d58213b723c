/** What a site's processes share: NATS has it (site.ts); tests keep it in memory. */
import type { JournalStream } from './journalStream.ts';
import type { ObjectFolder } from './objectFolder.ts';

export interface SharedSite {
  readonly journal: JournalStream;
  readonly blobs: ObjectFolder;
  readonly snapshots: ObjectFolder;
}
