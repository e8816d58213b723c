/** Which run a call is for, where a site trains several. */

/** Calls that are the site's, from the page of whichever run: sessions, names, and which runs there are. */
const OF_THE_SITE =
  /^\/api\/(runs|name|operator\/(login|logout|viewer|runs|texts|activate|beside|queue|webhook))(\/|$)/;
/** Reads about any run that is kept, which they name. */
const OF_ANY_RUN = /^\/api\/operator\/(steps|samples|export)$/;

/** The path of a request, and the run that it names. */
export function calledFor(url: string): { readonly path: string; readonly run: string | undefined } {
  const [path = '', query = ''] = url.split('?', 2);
  return { path, run: new URLSearchParams(query).get('run') ?? undefined };
}

export const isOfTheSite = (path: string): boolean => OF_THE_SITE.test(path);

/** The run that an operator's call has to reach, or none; undefined: any server may answer it. */
export function runOfCall(method: string, url: string): string | undefined {
  const { path, run } = calledFor(url);
  return isOfTheSite(path) || (method === 'GET' && OF_ANY_RUN.test(path)) ? undefined : run;
}
