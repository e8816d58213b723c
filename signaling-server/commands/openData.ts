/** A data directory for a command: what was wrong in it is said before anything else. */
import { terminalLog } from '../monitoring/log.ts';
import { type DataDirectory, openDataDirectory } from '../store/dataDirectory.ts';
import { failed, need } from './failure.ts';

export async function openData(path: string, isKept = true): Promise<DataDirectory> {
  const data = need(await openDataDirectory(path, isKept), failed);
  const log = terminalLog();
  for (const text of data.found) log('warn', text);
  return data;
}
