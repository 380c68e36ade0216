import type { Clock } from "../host/clock.ts";
import type { Log } from "../host/log/log.ts";
import type { TokenRequest } from "../proto/kubernetes/gen/types.ts";
import { KubeError } from "./error.ts";
import { DEFAULT_DEADLINE_MS, type GetOptions, type RequestOptions } from "./request-options.ts";
import { type KubeObject, pathOf, type Resource, type Selector, serviceAccounts } from "./resource.ts";
import type { KubeConnection, KubeRequest } from "./transport/connection.ts";
import { isKubeObject, type KubeList, listAll } from "./watch/list.ts";
import { createRecovery } from "./watch/recovery.ts";
import { type ReflectorListener, runReflector } from "./watch/reflector.ts";

/** The subresource that a request addresses, if not the object itself. */
interface SubresourceOptions {
  readonly subresource?: "status";
}

export interface Patch extends SubresourceOptions {
  /**
   * Strategic merge patch, which merges lists by their merge keys, or JSON merge patch (RFC 7386), which replaces
   * lists.
   */
  readonly type: "strategic" | "merge";
  /** A precondition: CONFLICT if the object has another uid. */
  readonly uid?: string;
  /** A function is called when the request is sent, so that the patch is the latest. */
  readonly body: PatchBody | (() => PatchBody);
}

type PatchBody = Readonly<Record<string, unknown>>;

export interface Deletion {
  /** The default of the object's kind if left out; 0 removes it at once. */
  readonly gracePeriodSeconds?: number;
  /** CONFLICT if the object does not match. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

/** The client for the API server that the agent's components use. Every call rejects with `KubeError`. */
export interface KubeClient {
  get<T extends KubeObject>(resource: Resource<T>, name: string, options?: GetOptions): Promise<T>;
  /** All pages, as a consistent snapshot. */
  list<T extends KubeObject>(resource: Resource<T>, selector: Selector, options?: RequestOptions): Promise<KubeList<T>>;
  /** Whether the server serves the resource in this version: discovery, which every user may ask for. */
  isServed(resource: Resource, options?: RequestOptions): Promise<boolean>;
  create<T extends KubeObject>(resource: Resource<T>, object: T, options?: RequestOptions): Promise<T>;
  /** TokenRequest: a token of a service account. CONFLICT if `metadata.uid` is not the account's uid. */
  requestToken(
    namespace: string,
    account: string,
    request: TokenRequest,
    options?: RequestOptions,
  ): Promise<TokenRequest>;
  /** CONFLICT if the object carries a resourceVersion that is not the latest. */
  replace<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options?: RequestOptions & SubresourceOptions,
  ): Promise<T>;
  patch<T extends KubeObject>(resource: Resource<T>, name: string, patch: Patch, options?: RequestOptions): Promise<T>;
  delete(resource: Resource, name: string, deletion?: Deletion, options?: RequestOptions): Promise<void>;
  /** Runs a reflector until the signal aborts: a snapshot first, then every change. Never rejects. */
  listAndWatch<T extends KubeObject>(
    resource: Resource<T>,
    selector: Selector,
    listener: ReflectorListener<T>,
    signal: AbortSignal,
  ): Promise<void>;
  /**
   * Calls `onRecovered` whenever any request shows that the server serves us again after an outage, until the signal
   * aborts.
   */
  subscribeToRecovery(onRecovered: () => void, signal: AbortSignal): void;
}

export interface KubeClientOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
}

const CONTENT_TYPES = {
  strategic: "application/strategic-merge-patch+json",
  merge: "application/merge-patch+json",
} as const;

export function createKubeClient(options: KubeClientOptions): KubeClient {
  const recovery = createRecovery(options.clock, options.random);
  const connection = recovery.track(options.connection);
  const deps = { ...options, connection, recovery };
  const send = async (
    request: Omit<KubeRequest, "deadlineMs">,
    { deadlineMs, signal, priorityLevel, isUrgent }: RequestOptions = {},
  ) =>
    await connection.request({
      ...request,
      deadlineMs: deadlineMs ?? DEFAULT_DEADLINE_MS,
      ...(signal && { signal }),
      ...(priorityLevel && { priorityLevel }),
      ...(isUrgent && { isUrgent }),
    });
  async function requestObject<T>(request: Omit<KubeRequest, "deadlineMs">, options?: RequestOptions): Promise<T> {
    const answer = await send(request, options);
    if (!isKubeObject(answer))
      throw new KubeError("NOT_JSON", `${request.method} ${request.path}: the answer is not an object`);
    // The server's schema guarantees the type; fields of a newer release are kept.
    return answer as T;
  }

  return {
    get(resource, name, options) {
      const query = options?.isFromCache === true ? { query: { resourceVersion: "0" } } : {};
      return requestObject({ method: "GET", path: pathOf(resource, name), ...query }, options);
    },
    list: (resource, selector, options) => listAll(connection, resource, selector, options),
    async isServed({ group, version, plural }, options) {
      const path = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
      try {
        return namesOf(await send({ method: "GET", path }, options)).includes(plural);
      } catch (error) {
        // A version that is not served has no document: the 404 has no reason.
        if (error instanceof KubeError && error.status === 404) return false;
        throw error;
      }
    },
    create: (resource, body, options) => requestObject({ method: "POST", path: pathOf(resource), body }, options),
    requestToken(namespace, account, body, options) {
      return requestObject(
        { method: "POST", path: pathOf(serviceAccounts(namespace), account, "token"), body },
        options,
      );
    },
    replace(resource, body, options) {
      const path = pathOf(resource, body.metadata.name, options?.subresource);
      return requestObject({ method: "PUT", path, body }, options);
    },
    async patch(resource, name, patch, options) {
      const path = pathOf(resource, name, patch.subresource);
      const contentType = CONTENT_TYPES[patch.type];
      try {
        return await requestObject({ method: "PATCH", path, contentType, body: patchBody(patch) }, options);
      } catch (error) {
        throw asConflict(error, path);
      }
    },
    async delete(resource, name, deletion = {}, options) {
      const body = { apiVersion: "v1", kind: "DeleteOptions", ...deletion };
      await send({ method: "DELETE", path: pathOf(resource, name), body }, options);
    },
    listAndWatch: (resource, selector, listener, signal) => runReflector(deps, resource, selector, listener, signal),
    subscribeToRecovery: recovery.subscribeToRecovery,
  };
}

/** The names in an `APIResourceList`; the answer may be malformed. */
function namesOf(answer: unknown): readonly unknown[] {
  const { resources } = (answer ?? {}) as { readonly resources?: unknown };
  return Array.isArray(resources) ? resources.map((each: { name?: unknown } | null) => each?.name) : [];
}

/** A uid in the patch is a precondition: for another object it would change the uid, which the server rejects. */
function patchBody({ body, uid }: Patch): unknown {
  if (typeof body === "function") return () => patchWithUid(body(), uid);
  return patchWithUid(body, uid);
}

function patchWithUid(body: PatchBody, uid: string | undefined): PatchBody {
  if (uid === undefined) return body;
  return { ...body, metadata: { ...(body["metadata"] as object | undefined), uid } };
}

/** Turns the server's INVALID for `metadata.uid` into CONFLICT: for the caller it is a failed precondition. */
function asConflict(error: unknown, path: string): unknown {
  const isUidMismatch = error instanceof KubeError && error.code === "INVALID" && error.fields.includes("metadata.uid");
  if (!isUidMismatch) return error;
  const { status, reason } = error;
  return new KubeError("CONFLICT", `PATCH ${path}: the object was replaced by one with another uid`, {
    status,
    reason,
    cause: error,
  });
}
