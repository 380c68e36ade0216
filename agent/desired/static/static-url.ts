import { type Clock, sleep } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import type { Log } from "../../../host/log/log.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { RejectedManifest } from "../../decide/node/local-node-report.ts";
import { podsWithDuplicateName } from "../../decide/sources/manifest-conflicts.ts";
import type { ManifestPod } from "../../decide/sources/merge-static.ts";
import { createOutageLog } from "../outage-log.ts";
import { readPodListManifest } from "./manifest.ts";
import { redactUrl } from "./source-location.ts";

/** The part of `fetch` in use. */
export type Fetch = (
  url: string,
  options: { readonly headers: [string, string][]; readonly signal: AbortSignal },
) => Promise<FetchResponse>;

interface FetchResponse {
  readonly ok: boolean;
  readonly status: number;
  readonly body: AsyncIterable<Uint8Array> | null;
}

export interface StaticUrlOptions {
  readonly url: string;
  /** May contain credentials; never logged. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly nodeName: string;
  readonly checkEveryMs: number;
  readonly fetch: Fetch;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether the node has a static pod of this uid that does not terminate. */
  readonly isUidInUse: (uid: string) => boolean;
  readonly apply: (pods: readonly ManifestPod[]) => Promise<void>;
  /** Receives the current errors, and the pods that do not start because another pod of the response has their name. */
  readonly reportErrors: (refused: readonly RejectedManifest[], duplicates: readonly Pod[]) => void;
}

/** The URL did not respond, or its response cannot be used. */
class UrlError extends Error {
  override readonly name = "UrlError";
  readonly code: "UNREACHABLE" | "TIMEOUT" | "STATUS" | "TOO_LARGE" | "NOT_TEXT" | "NO_PODS";
  constructor(code: UrlError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const TIMEOUT_MS = 10_000;
const MAX_RESPONSE_BYTES = 2 << 20;

/**
 * Requests a Pod or a PodList from a URL every `httpCheckFrequency`; an unchanged response is ignored. A response that
 * cannot be used is refused, its reason is logged once, and the pods of the last good response stay. Resolves when the
 * signal aborts; never rejects.
 */
export async function pollStaticUrl(options: StaticUrlOptions, signal: AbortSignal): Promise<void> {
  const { url, nodeName, clock, log, checkEveryMs, isUidInUse, apply, reportErrors } = options;
  const source = { kind: "http", url } as const;
  const file = redactUrl(url);
  const outageLog = createOutageLog(log, { url: file }, "static pods are read from the URL again");
  let applied: string | undefined;
  let duplicates: readonly Pod[] = [];
  /** A refused response is not parsed again until it changes. */
  let rejected: { readonly text: string; readonly error: UrlError } | undefined;

  async function poll(): Promise<void> {
    const text = await download(options, signal);
    if (text === rejected?.text) throw rejected.error;
    rejected = undefined;
    if (text === applied) return;
    const { pods, problem } = await readPodListManifest(text, { url, nodeName, isUidInUse });
    if (problem !== undefined) {
      rejected = { text, error: new UrlError("NO_PODS", problem) };
      throw rejected.error;
    }
    await apply(pods.map((pod) => ({ pod, source })));
    applied = text;
    duplicates = podsWithDuplicateName(pods);
  }

  function onFailure(error: unknown): void {
    if (signal.aborted) return;
    const verb = error instanceof UrlError ? "refused" : "cannot be applied";
    const problem = `${messageOf(error)}; the known pods stay as they are`;
    outageLog.report(`static pods from the URL ${verb}: ${problem}`);
    reportErrors([{ file, problem }], duplicates);
  }

  function onSuccess(): void {
    outageLog.clear();
    reportErrors([], duplicates);
  }

  while (!signal.aborted) {
    await poll().then(onSuccess, onFailure);
    await sleep(clock, checkEveryMs, signal).catch(() => {
      // The signal ends the wait and the loop.
    });
  }
}

/** Rejects with `UrlError` only. */
async function download({ url, headers, fetch, clock }: StaticUrlOptions, signal: AbortSignal): Promise<string> {
  const timeout = new AbortController();
  const cancelTimeout = clock.wakeAt(clock.now() + TIMEOUT_MS, () => timeout.abort());
  const pairs = Object.entries(headers).flatMap(([name, values]) =>
    values.map((value): [string, string] => [name, value]),
  );
  try {
    return await textOf(await fetch(url, { headers: pairs, signal: AbortSignal.any([signal, timeout.signal]) }));
  } catch (error) {
    if (error instanceof UrlError) throw error;
    if (timeout.signal.aborted)
      throw new UrlError("TIMEOUT", `the server did not answer within ${TIMEOUT_MS / 1000} s`, { cause: error });
    throw new UrlError("UNREACHABLE", messageOf(error), { cause: error });
  } finally {
    cancelTimeout();
    // Closes the connection of a response whose body was not read.
    timeout.abort();
  }
}

async function textOf({ ok, status, body }: FetchResponse): Promise<string> {
  if (!ok) throw new UrlError("STATUS", `the server answered ${status}`);
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > MAX_RESPONSE_BYTES)
      throw new UrlError("TOO_LARGE", `the answer is larger than ${MAX_RESPONSE_BYTES} bytes`);
    chunks.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw new UrlError("NOT_TEXT", "the answer is not UTF-8 text", { cause: error });
  }
}
