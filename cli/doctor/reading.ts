import { settledWithin } from "../../host/async/settled-within.ts";
import type { Clock } from "../../host/clock.ts";
import { messageOf } from "../../host/error-message.ts";

/** A fact of the machine, or why it could not be read. */
export type Reading<T> = { readonly value: T } | { readonly problem: string };

/** One function per fact; any of them may fail, or never return. */
export type Readers<Facts> = { readonly [Name in keyof Facts]: () => Promise<Facts[Name]> };

export type Readings<Facts> = { readonly [Name in keyof Facts]: Reading<Facts[Name]> };

/** Reads all facts at once. A fact that takes longer than the limit counts as unreadable. Never rejects. */
export async function readAll<Facts>(
  readers: Readers<Facts>,
  { clock, limitMs }: { readonly clock: Clock; readonly limitMs: number },
): Promise<Readings<Facts>> {
  const names = Object.keys(readers) as (keyof Facts & string)[];
  const entries = names.map(async (name) => [name, await readWithin(readers[name], clock, limitMs)] as const);
  return Object.fromEntries(await Promise.all(entries)) as unknown as Readings<Facts>;
}

async function readWithin<T>(read: () => Promise<T>, clock: Clock, limitMs: number): Promise<Reading<T>> {
  const reading = Promise.try(read).then(
    (value) => ({ value }),
    (error: unknown) => ({ problem: messageOf(error) }),
  );
  const isRead = await settledWithin(reading, limitMs, clock);
  return isRead ? await reading : { problem: `no answer within ${limitMs / 1000} s` };
}
