import { type Clock, sleep } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { OfferedPod } from "../decide/merge.ts";
import { readPodListManifest } from "./manifest.ts";

export interface StaticUrlSettings {
  readonly url: string;
  /** May hold credentials; never logged. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly nodeName: string;
  readonly checkEveryMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly offer: (pods: readonly OfferedPod[]) => Promise<void>;
}

const TIMEOUT_MS = 10_000;
const LARGEST_ANSWER_BYTES = 10 << 20;

/**
 * Asks a URL for a Pod or a PodList every `httpCheckFrequency`; the same answer twice is no news. An answer that cannot be used is
 * refused with its reason, said once, and what was asked for before stays.
 */
export async function followStaticUrl(settings: StaticUrlSettings, signal: AbortSignal): Promise<void> {
  const { url, clock, log, checkEveryMs } = settings;
  let last: string | undefined;
  let problem: string | undefined;
  while (!signal.aborted) {
    try {
      const text = await download(settings, signal);
      if (text !== last) await offerAnswer(settings, text);
      last = text;
      if (problem !== undefined) log.info({ url: withoutSecrets(url) }, "static pods are read from the URL again");
      problem = undefined;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (!signal.aborted && message !== problem)
        log.error(
          { url: withoutSecrets(url) },
          `static pods from the URL refused: ${message}; those known stay as they are`,
        );
      problem = message;
    }
    await sleep(clock, checkEveryMs, signal).catch(() => {
      // The signal has ended the wait, and ends the loop.
    });
  }
}

async function offerAnswer({ url, nodeName, offer }: StaticUrlSettings, text: string): Promise<void> {
  const source = { kind: "http", url } as const;
  const { pods, problem } = await readPodListManifest(text, { url, nodeName });
  if (problem !== undefined) throw new Error(problem);
  await offer(pods.map((pod) => ({ pod, source })));
}

async function download({ url, headers }: StaticUrlSettings, signal: AbortSignal): Promise<string> {
  const answer = await fetch(url, {
    headers: Object.entries(headers).flatMap(([name, values]) =>
      values.map((value): [string, string] => [name, value]),
    ),
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
  });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  let length = 0;
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  for await (const chunk of answer.body ?? []) {
    length += chunk.length;
    if (length > LARGEST_ANSWER_BYTES) throw new Error(`the answer is larger than ${LARGEST_ANSWER_BYTES} bytes`);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** A URL as a log may have it: neither user, password nor query. */
function withoutSecrets(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
