import { type Clock, sleep } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { namesakesAmong } from "../../decide/claims.ts";
import type { Refusal } from "../../decide/node/local-node-report.ts";
import type { OfferedPod } from "../../decide/sources/merge-static.ts";
import { createTrouble, messageOf } from "../outage-log.ts";
import { readPodListManifest } from "./manifest.ts";
import { withoutSecrets } from "./source-location.ts";

/** As much of `fetch` as is needed. */
export type Fetch = (
  url: string,
  options: { readonly headers: [string, string][]; readonly signal: AbortSignal },
) => Promise<Answer>;

interface Answer {
  readonly ok: boolean;
  readonly status: number;
  readonly body: AsyncIterable<Uint8Array> | null;
}

export interface StaticUrlSettings {
  readonly url: string;
  /** May hold credentials; never logged. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly nodeName: string;
  readonly checkEveryMs: number;
  readonly fetch: Fetch;
  readonly clock: Clock;
  readonly log: Log;
  readonly offer: (pods: readonly OfferedPod[]) => Promise<void>;
  /** All that is refused now, and the pods that wait because another one of the answer has their name. */
  readonly refuse: (refused: readonly Refusal[], namesakes: readonly Pod[]) => void;
}

/** What the URL answered, or did not. */
class UrlError extends Error {
  override readonly name = "UrlError";
  readonly code: "UNREACHABLE" | "TIMEOUT" | "STATUS" | "TOO_LARGE" | "NOT_TEXT" | "NO_PODS";
  constructor(code: UrlError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const TIMEOUT_MS = 10_000;
const LARGEST_ANSWER_BYTES = 2 << 20;

/**
 * Asks a URL for a Pod or a PodList every `httpCheckFrequency`; the same answer twice is no news. An answer that cannot be used is
 * refused with its reason, said once, and what was asked for before stays. Resolves when the signal aborts and never rejects.
 */
export async function followStaticUrl(settings: StaticUrlSettings, signal: AbortSignal): Promise<void> {
  const { url, nodeName, clock, log, checkEveryMs, offer, refuse } = settings;
  const source = { kind: "http", url } as const;
  const file = withoutSecrets(url);
  const trouble = createTrouble(log, { url: file }, "static pods are read from the URL again");
  let taken: string | undefined;
  let namesakes: readonly Pod[] = [];
  /** What was refused once is not read again until it changes. */
  let refused: { readonly text: string; readonly why: UrlError } | undefined;

  async function look(): Promise<void> {
    const text = await download(settings, signal);
    if (text === refused?.text) throw refused.why;
    refused = undefined;
    if (text === taken) return;
    const { pods, problem } = await readPodListManifest(text, { url, nodeName });
    if (problem !== undefined) {
      refused = { text, why: new UrlError("NO_PODS", problem) };
      throw refused.why;
    }
    await offer(pods.map((pod) => ({ pod, source })));
    taken = text;
    namesakes = namesakesAmong(pods);
  }

  function tell(error: unknown): void {
    if (signal.aborted) return;
    const what = error instanceof UrlError ? "refused" : "cannot be taken";
    const problem = `${messageOf(error)}; those known stay as they are`;
    trouble.met(`static pods from the URL ${what}: ${problem}`);
    refuse([{ file, problem }], namesakes);
  }

  function over(): void {
    trouble.over();
    refuse([], namesakes);
  }

  while (!signal.aborted) {
    await look().then(over, tell);
    await sleep(clock, checkEveryMs, signal).catch(() => {
      // The signal has ended the wait, and ends the loop.
    });
  }
}

/** Rejects with `UrlError`, and with nothing else. */
async function download({ url, headers, fetch, clock }: StaticUrlSettings, signal: AbortSignal): Promise<string> {
  const patience = new AbortController();
  const stopWaiting = clock.wakeAt(clock.now() + TIMEOUT_MS, () => patience.abort());
  const pairs = Object.entries(headers).flatMap(([name, values]) =>
    values.map((value): [string, string] => [name, value]),
  );
  try {
    return await textOf(await fetch(url, { headers: pairs, signal: AbortSignal.any([signal, patience.signal]) }));
  } catch (error) {
    if (error instanceof UrlError) throw error;
    if (patience.signal.aborted)
      throw new UrlError("TIMEOUT", `the server did not answer within ${TIMEOUT_MS / 1000} s`, { cause: error });
    throw new UrlError("UNREACHABLE", messageOf(error), { cause: error });
  } finally {
    stopWaiting();
  }
}

async function textOf({ ok, status, body }: Answer): Promise<string> {
  if (!ok) throw new UrlError("STATUS", `the server answered ${status}`);
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > LARGEST_ANSWER_BYTES)
      throw new UrlError("TOO_LARGE", `the answer is larger than ${LARGEST_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw new UrlError("NOT_TEXT", "the answer is not UTF-8 text", { cause: error });
  }
}
