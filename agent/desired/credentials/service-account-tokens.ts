import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { createSemaphore } from "../../../host/async/semaphore.ts";
import type { KubeClient } from "../../../kube/client.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type KnownToken, type TokenReference, tokenReferencesOf } from "../../../proto/kubernetes/token-references.ts";
import { createKnownValues } from "../objects/known-values.ts";
import {
  createServiceAccountToken,
  type ServiceAccountToken,
  type ServiceAccountTokenOptions,
} from "./service-account-token.ts";

/** Requests and refreshes the service account tokens in the projected volumes of this node's pods. Memory only. */
export interface ServiceAccountTokens {
  /** The tokens by `tokenKey`, also during an outage of the API server. A missing entry is still being requested. */
  latest(): ReadonlyMap<string, KnownToken>;
  /** The version of each known token by `tokenKey`; `failed` if there is none. */
  versions(): ReadonlyMap<string, string>;
  /** Requests the tokens of the pod's volumes, and refreshes them from now on. */
  retain(uid: PodUid, pod: Pod): void;
  /** The pod starts no more containers: forgets its tokens. */
  release(uid: PodUid): void;
  /** Sends the requests until the signal aborts; never rejects. Called once. */
  run(signal: AbortSignal): Promise<void>;
}

export interface ServiceAccountTokensOptions extends Pick<ServiceAccountTokenOptions, "clock" | "random" | "log"> {
  readonly kube: Pick<KubeClient, "requestToken" | "subscribeToRecovery">;
  /**
   * The pod's token of this key has arrived or changed, or it is known now why there is none. May not throw.
   */
  readonly onChange: (uid: PodUid, key: string) => void;
}

interface PodTokens {
  readonly pod: Pod;
  /** By key, which no other pod has: it contains the pod's uid. */
  readonly tokens: ReadonlyMap<string, ServiceAccountToken>;
}

/** A node that starts with a hundred pods must not crowd out its other requests. */
const MAX_REQUESTS = 8;

/** One timer serves all tokens; without a token there is none. */
export function createServiceAccountTokens({
  onChange,
  ...adapters
}: ServiceAccountTokensOptions): ServiceAccountTokens {
  const { kube, clock } = adapters;
  const pods = new Map<PodUid, PodTokens>();
  const { latest, versions, ...values } = createKnownValues<KnownToken>();
  const requestSlots = createSemaphore({ permits: MAX_REQUESTS });
  const schedule = createAutoResetEvent(clock);
  const all = () => [...pods.values()].flatMap(({ tokens }) => [...tokens.values()]);

  function createToken(uid: PodUid, key: string, reference: TokenReference): ServiceAccountToken {
    const onKnown = (known: KnownToken) => {
      if (values.set(key, known)) onChange(uid, key);
    };
    return createServiceAccountToken({ ...adapters, reference, requestSlots, onKnown, onRescheduled: schedule.set });
  }

  function forget(key: string, token: ServiceAccountToken): void {
    token.stop();
    values.delete(key);
  }

  return {
    latest: () => latest,
    versions: () => versions,
    retain(uid, pod) {
      const before = pods.get(uid);
      if (before?.pod === pod) return;
      const references = tokenReferencesOf(pod);
      const tokens = new Map(
        [...references].map(([key, reference]) => [key, before?.tokens.get(key) ?? createToken(uid, key, reference)]),
      );
      const gone = [...(before?.tokens ?? [])].filter(([key]) => !tokens.has(key));
      for (const [key, token] of gone) forget(key, token);
      pods.set(uid, { pod, tokens });
      // Hardly any change of a pod changes its tokens, and a wake looks at those of all pods.
      const kept = (before?.tokens.size ?? 0) - gone.length;
      if (gone.length > 0 || tokens.size > kept) schedule.set();
    },
    release(uid) {
      const { tokens = new Map<string, ServiceAccountToken>() } = pods.get(uid) ?? {};
      for (const [key, token] of tokens) forget(key, token);
      pods.delete(uid);
      if (tokens.size > 0) schedule.set();
    },
    async run(signal) {
      kube.subscribeToRecovery(() => {
        for (const token of all()) token.retryAfterOutage();
      }, signal);
      while (!signal.aborted) {
        for (const token of all()) token.runDue();
        const idleMs = Math.min(...all().map((token) => token.idleMs()));
        await schedule.wait(clock.now() + idleMs, signal);
      }
      const left = all();
      for (const token of left) token.stop();
      await Promise.all(left.map((token) => token.settled()));
    },
  };
}
