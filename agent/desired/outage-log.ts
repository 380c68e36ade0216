import type { Log, LogFields } from "../../host/log.ts";

/** A trouble that may be met again and again: told when it is met first, and when it is over. */
export interface Trouble {
  met(sentence: string): void;
  over(): void;
}

/** `fields` go with every line, and `overSentence` tells of the end. */
export function createTrouble(log: Log, fields: LogFields, overSentence: string): Trouble {
  let told: string | undefined;
  return {
    met(sentence) {
      if (sentence !== told) log.error(fields, sentence);
      told = sentence;
    },
    over() {
      if (told !== undefined) log.info(fields, overSentence);
      told = undefined;
    },
  };
}

/** What an error says of itself. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
