import type { Clock } from "../host/clock.ts";
import type { Log } from "../host/log.ts";
import type { TokenRequest } from "../proto/kubernetes/gen/types.ts";
import { KubeError } from "./error.ts";
import { type KubeObject, pathOf, type Resource, type Selector, serviceAccounts } from "./resource.ts";
import type { Connection, KubeRequest } from "./transport/connection.ts";
import { type CallOptions, DEADLINE_MS, isObject, type KubeList, listAll } from "./watch/list.ts";
import { createRecovery } from "./watch/recovery.ts";
import { type FollowListener, follow } from "./watch/reflector.ts";

/** The part of an object that a request is about, where that is not the object as such. */
interface Part {
  readonly subresource?: "status";
}

export interface Patch extends Part {
  /** By the merge keys that Kubernetes gives its lists, or by RFC 7386, which replaces lists. */
  readonly type: "strategic" | "merge";
  /** Only if the object is still this one; CONFLICT otherwise. */
  readonly uid?: string;
  /** A function is asked for it when the request's turn has come, so that it is the latest then. */
  readonly body: PatchBody | (() => PatchBody);
}

type PatchBody = Readonly<Record<string, unknown>>;

export interface Deletion {
  /** As the object's kind has it if left out; 0 removes it at once. */
  readonly gracePeriodSeconds?: number;
  /** Only if the object is still this one; CONFLICT otherwise. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

/** The API server, as the rooms of the agent use it. Every call rejects with `KubeError`. */
export interface Kube {
  get<T extends KubeObject>(resource: Resource<T>, name: string, options?: CallOptions): Promise<T>;
  /** Complete and of one moment, however many there are. */
  list<T extends KubeObject>(resource: Resource<T>, selector: Selector, options?: CallOptions): Promise<KubeList<T>>;
  create<T extends KubeObject>(resource: Resource<T>, object: T, options?: CallOptions): Promise<T>;
  /** A token of a service account. CONFLICT where `metadata.uid` says that another account is meant. */
  requestToken(namespace: string, account: string, request: TokenRequest, options?: CallOptions): Promise<TokenRequest>;
  /** CONFLICT when the object carries a resourceVersion and that is not the latest any more. */
  replace<T extends KubeObject>(resource: Resource<T>, object: T, options?: CallOptions & Part): Promise<T>;
  patch<T extends KubeObject>(resource: Resource<T>, name: string, patch: Patch, options?: CallOptions): Promise<T>;
  delete(resource: Resource, name: string, deletion?: Deletion, options?: CallOptions): Promise<void>;
  /** Lists and watches until the signal aborts: everything there is first, then every change. Never rejects. */
  follow<T extends KubeObject>(
    resource: Resource<T>,
    selector: Selector,
    listener: FollowListener<T>,
    signal: AbortSignal,
  ): Promise<void>;
  /** Calls `recovered` whenever the server, by whatever request, is seen to serve us again, until the signal aborts. */
  onRecovery(recovered: () => void, signal: AbortSignal): void;
}

export interface KubeOptions {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
}

const CONTENT_TYPES = {
  strategic: "application/strategic-merge-patch+json",
  merge: "application/merge-patch+json",
} as const;

export function createKube(options: KubeOptions): Kube {
  const recovery = createRecovery(options.clock, options.random);
  const connection = recovery.listen(options.connection);
  const tools = { ...options, connection, recovery };
  const ask = async (
    request: Omit<KubeRequest, "deadlineMs">,
    { deadlineMs, signal, lane, isUrgent }: CallOptions = {},
  ) =>
    await connection.request({
      ...request,
      deadlineMs: deadlineMs ?? DEADLINE_MS,
      ...(signal && { signal }),
      ...(lane && { lane }),
      ...(isUrgent && { isUrgent }),
    });
  async function askForObject<T>(request: Omit<KubeRequest, "deadlineMs">, options?: CallOptions): Promise<T> {
    const answer = await ask(request, options);
    if (!isObject(answer)) throw new KubeError("NOT_JSON", `${request.method} ${request.path}: no object came back`);
    // The server's schema says what it is; fields of a newer one are kept as they are.
    return answer as T;
  }

  return {
    get: (resource, name, options) => askForObject({ method: "GET", path: pathOf(resource, name) }, options),
    list: (resource, selector, options) => listAll(connection, resource, selector, options),
    create: (resource, body, options) => askForObject({ method: "POST", path: pathOf(resource), body }, options),
    requestToken(namespace, account, body, options) {
      return askForObject(
        { method: "POST", path: pathOf(serviceAccounts(namespace), account, "token"), body },
        options,
      );
    },
    replace(resource, body, options) {
      const path = pathOf(resource, body.metadata.name, options?.subresource);
      return askForObject({ method: "PUT", path, body }, options);
    },
    async patch(resource, name, patch, options) {
      const path = pathOf(resource, name, patch.subresource);
      const contentType = CONTENT_TYPES[patch.type];
      try {
        return await askForObject({ method: "PATCH", path, contentType, body: patchBody(patch) }, options);
      } catch (error) {
        throw asConflict(error, path);
      }
    },
    async delete(resource, name, deletion = {}, options) {
      const body = { apiVersion: "v1", kind: "DeleteOptions", ...deletion };
      await ask({ method: "DELETE", path: pathOf(resource, name), body }, options);
    },
    follow: (resource, selector, listener, signal) => follow(tools, resource, selector, listener, signal),
    onRecovery: recovery.tell,
  };
}

/** A uid in a patch would change the uid of another object, which the server refuses: that makes it a precondition. */
function patchBody({ body, uid }: Patch): unknown {
  if (typeof body === "function") return () => patchWithUid(body(), uid);
  return patchWithUid(body, uid);
}

function patchWithUid(body: PatchBody, uid: string | undefined): PatchBody {
  if (uid === undefined) return body;
  return { ...body, metadata: { ...(body["metadata"] as object | undefined), uid } };
}

/** The server calls a uid that it will not change invalid; to whoever asked it is a precondition that does not hold. */
function asConflict(error: unknown, path: string): unknown {
  const isOfUid = error instanceof KubeError && error.code === "INVALID" && error.fields.includes("metadata.uid");
  if (!isOfUid) return error;
  const { status, reason } = error;
  return new KubeError("CONFLICT", `PATCH ${path}: it is another object by now`, { status, reason, cause: error });
}
