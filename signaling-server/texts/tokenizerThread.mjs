/**
 * The library in a thread of its own, since a tokenizer.json can be made so that it never comes to an end. Plain
 * JavaScript: a thread starts from a file, and the sources are run in tests as they are.
 */
import { parentPort } from 'node:worker_threads';
import { Tokenizer } from '@huggingface/tokenizers';

let library;

const calls = {
  /** Ids go from 0 to below the answer. */
  open(bytes) {
    const json = JSON.parse(new TextDecoder().decode(bytes));
    // Decoding gives back what was encoded only if spaces are left as they are.
    library = new Tokenizer(json, { clean_up_tokenization_spaces: false });
    let ids = 0;
    for (const id of library.get_vocab().values()) ids = Math.max(ids, id + 1);
    return ids;
  },
  encode: (text) => library.encode(text, { add_special_tokens: false }).ids,
  decode: (ids) => library.decode(ids),
};

parentPort.on('message', ({ call, argument }) => {
  try {
    parentPort.postMessage({ value: calls[call](argument) });
  } catch (error) {
    parentPort.postMessage({ fault: error instanceof Error ? error.message : String(error) });
  }
});
