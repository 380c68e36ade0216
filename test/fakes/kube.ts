import type { Clock } from "../../host/clock.ts";
import { createKubeClient, type KubeClient, type Patch } from "../../kube/client.ts";
import { KubeError } from "../../kube/error.ts";
import type { GetOptions, RequestOptions } from "../../kube/request-options.ts";
import type { KubeObject, Resource, Selector } from "../../kube/resource.ts";
import type { ConnectionState, KubeConnection, KubeRequest, LinesRequest } from "../../kube/transport/connection.ts";
import { createFlowControl, type FlowControl, type RateLimits } from "../../kube/transport/flow-control.ts";
import type { KubeList } from "../../kube/watch/list.ts";
import type { ReflectorListener } from "../../kube/watch/reflector.ts";
import type { BoundObjectReference, Pod, TokenRequest } from "../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../proto/kubernetes/values/time.ts";
import { type Deletion, FakeObjects, type ObjectKey, type StoredObject, statusError } from "./kube-objects.ts";
import { applyMergePatch, isJsonObject, type JsonObject, strategicMerge } from "./kube-patch.ts";
import { formatTarget, parseTarget, type RequestTarget } from "./kube-request-target.ts";
import { FakeWatches, validateWatchOptions } from "./kube-watches.ts";
import { FakeLog } from "./log.ts";

export type KubeVerb = "get" | "list" | "watch" | "create" | "replace" | "patch" | "delete";
/** Receives the target of the call as `calls` shows it: `pods/shop/web/status`, `nodes`. */
export type KubeHook = (targetName: string) => Promise<void> | void;

export interface FakeKubeOptions {
  readonly clock: Clock;
  /** The log of the reflectors. */
  readonly log?: FakeLog;
  /** The jitter of the back-off; no jitter if left out. */
  readonly random?: () => number;
  /** The client-side rate limits; none if left out. */
  readonly rates?: RateLimits;
}

const DEADLINE_MS = 30_000;

/**
 * An API server in memory. As a `KubeClient` it is the real client on a connection that ends here, so that paging,
 * resuming and back-off are the real ones; as a `KubeConnection` it answers requests. `user` is another client of the same
 * cluster, whose calls never fail and are not recorded in `calls`.
 */
export class FakeKube implements KubeClient, KubeConnection {
  readonly objects: FakeObjects;
  readonly user: KubeClient;
  /** Every call, in order: the verb and its target. */
  readonly calls: string[] = [];
  /** The errors of the next calls of a verb, oldest first; a call that fails so has no effect. */
  failures: Partial<Record<KubeVerb, KubeError[]>> = {};
  /** Awaited before a call takes effect; it may throw. */
  before: Partial<Record<KubeVerb, KubeHook>> = {};
  /** Awaited after a call took effect, before it is answered; it may throw. */
  after: Partial<Record<KubeVerb, KubeHook>> = {};
  /** Whether watches support `sendInitialEvents`. */
  supportsInitialEvents = true;

  readonly #clock: Clock;
  readonly #flowControl: FlowControl | undefined;
  readonly #kube: KubeClient;
  readonly #watches: FakeWatches;
  readonly #interrupts = new Set<(error: KubeError) => void>();
  readonly #pages = new Map<string, KubeList<StoredObject>>();
  #tokens = 0;
  #isDown = false;
  #failAllWith: (() => KubeError) | undefined;

  constructor({ clock, log = new FakeLog(), random = () => 0, rates }: FakeKubeOptions) {
    this.#clock = clock;
    this.#flowControl = rates && createFlowControl(rates, clock);
    this.objects = new FakeObjects(clock, (change) => this.#watches.publish(change));
    this.#watches = new FakeWatches(this.objects, clock);
    this.#kube = createKubeClient({ connection: this, clock, log, random });
    const direct = {
      ...userConnection,
      request: async (request: KubeRequest) =>
        this.#answer(parseTarget(request), { ...request, body: bodyOf(request) }),
    };
    this.user = createKubeClient({ connection: direct, clock, log, random });
  }

  get = <T extends KubeObject>(resource: Resource<T>, name: string, options?: GetOptions): Promise<T> =>
    this.#kube.get(resource, name, options);
  list = <T extends KubeObject>(
    resource: Resource<T>,
    selector: Selector,
    options?: RequestOptions,
  ): Promise<KubeList<T>> => this.#kube.list(resource, selector, options);
  isServed = (resource: Resource, options?: RequestOptions): Promise<boolean> => this.#kube.isServed(resource, options);
  create = <T extends KubeObject>(resource: Resource<T>, object: T, options?: RequestOptions): Promise<T> =>
    this.#kube.create(resource, object, options);
  requestToken = (namespace: string, account: string, request: TokenRequest, options?: RequestOptions) =>
    this.#kube.requestToken(namespace, account, request, options);
  replace = <T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options?: RequestOptions & { readonly subresource?: "status" },
  ): Promise<T> => this.#kube.replace(resource, object, options);
  patch = <T extends KubeObject>(
    resource: Resource<T>,
    name: string,
    patch: Patch,
    options?: RequestOptions,
  ): Promise<T> => this.#kube.patch(resource, name, patch, options);
  delete = (resource: Resource, name: string, deletion?: Deletion, options?: RequestOptions): Promise<void> =>
    this.#kube.delete(resource, name, deletion, options);
  listAndWatch = <T extends KubeObject>(
    resource: Resource<T>,
    selector: Selector,
    listener: ReflectorListener<T>,
    signal: AbortSignal,
  ): Promise<void> => this.#kube.listAndWatch(resource, selector, listener, signal);
  subscribeToRecovery = (onRecovered: () => void, signal: AbortSignal): void =>
    this.#kube.subscribeToRecovery(onRecovered, signal);

  /** Binds a pod to a node, as the scheduler does. */
  bind(namespace: string, name: string, nodeName: string): void {
    this.objects.bind({ resource: "pods", namespace, name }, nodeName);
  }

  /** Kills the server process: watches break, and calls fail with UNREACHABLE until `comeBack`. */
  goDown(): void {
    this.#isDown = true;
    const error = new KubeError("UNREACHABLE", "the API server is down", { isUnprocessed: false });
    for (const interrupt of this.#interrupts) interrupt(error);
    this.breakWatches(error);
  }

  comeBack(): void {
    this.#isDown = false;
  }

  /** Breaks all watches, and answers every call with this error until the returned function is called. */
  failAll(createError: () => KubeError): () => void {
    this.#failAllWith = createError;
    this.breakWatches(createError());
    return () => {
      if (this.#failAllWith === createError) this.#failAllWith = undefined;
    };
  }

  /** Ends every watch, cleanly if no error is given. */
  breakWatches(error?: KubeError): void {
    this.#watches.breakAll(error);
  }

  /**
   * Saves all objects. The returned function puts them back and closes every watch, as when etcd is restored from a
   * backup.
   */
  takeSnapshot(): () => void {
    const restore = this.objects.takeSnapshot();
    return () => {
      restore();
      this.#pages.clear();
      this.breakWatches(new KubeError("CLOSED", "the API server was restored"));
    };
  }

  /** The open watches stay open and never send anything again. */
  silenceWatches(): void {
    this.#watches.silence();
  }

  /** The open watches receive the event of every creation since the start again. */
  repeatCreations(): void {
    this.#watches.repeatCreations();
  }

  /** The number of open watches. */
  get openWatches(): number {
    return this.#watches.size;
  }

  /**
   * Compacts the history: a client that resumes from an earlier version or continues a list gets 410 and lists again.
   */
  compact(): void {
    this.#watches.compact();
    this.#pages.clear();
  }

  /** Holds every call of the verb, before it takes effect, until the returned function is called. */
  hang(verb: KubeVerb): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const hook = () => promise;
    this.before[verb] = hook;
    return () => {
      if (this.before[verb] === hook) delete this.before[verb];
      resolve();
    };
  }

  async request(request: KubeRequest): Promise<unknown> {
    const target = parseTarget(request);
    const verb = verbOf(request, target);
    const { priorityLevel = "main", signal = new AbortController().signal, isUrgent } = request;
    const release = await this.#flowControl?.admit(priorityLevel, false, signal, isUrgent);
    try {
      const sentBody = { ...request, body: bodyOf(request) };
      return await this.#call(verb, target, request, () => this.#answer(target, sentBody));
    } finally {
      release?.();
    }
  }

  async lines(
    request: LinesRequest,
    onLine: (line: unknown) => void,
    opened?: () => void,
  ): Promise<KubeError | undefined> {
    const target = parseTarget(request);
    const { promise, resolve } = Promise.withResolvers<KubeError | undefined>();
    const cancel = () => resolve(new KubeError("CANCELLED", "cancelled"));
    // The listener may end the watch while it is being opened.
    let close = () => {};
    try {
      const open = () => {
        const query = request.query ?? {};
        validateWatchOptions(query, this.supportsInitialEvents);
        opened?.();
        close = this.#watches.open({ target, query, onLine, onEnd: resolve });
      };
      await this.#call("watch", target, { deadlineMs: DEADLINE_MS, ...request }, open);
      request.signal?.addEventListener("abort", cancel, { once: true });
      if (request.signal?.aborted) cancel();
      const error = await promise;
      request.signal?.removeEventListener("abort", cancel);
      return error;
    } catch (error) {
      if (error instanceof KubeError) return error;
      throw error;
    } finally {
      close();
    }
  }

  state = (): ConnectionState => ({ kind: "connected", since: 0, lastFailure: undefined });
  close = (): void => this.goDown();

  async #call<T>(
    verb: KubeVerb,
    target: RequestTarget,
    { deadlineMs, signal }: Pick<KubeRequest, "deadlineMs" | "signal">,
    effect: () => T,
  ): Promise<T> {
    const targetName = formatTarget(target);
    this.calls.push(`${verb} ${targetName}`);
    const { promise, reject } = Promise.withResolvers<never>();
    let isInterrupted = false;
    const interrupt = (error: KubeError) => {
      isInterrupted = true;
      reject(error);
    };
    const onAbort = () => interrupt(new KubeError("CANCELLED", `${verb} ${targetName}: cancelled`));
    const onDeadline = () =>
      interrupt(new KubeError("TIMEOUT", `${verb} ${targetName}: no answer within ${deadlineMs} ms`));
    const cancelTimer = this.#clock.wakeAt(this.#clock.now() + deadlineMs, onDeadline);
    this.#interrupts.add(interrupt);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    if (this.#isDown) interrupt(new KubeError("UNREACHABLE", `${verb} ${targetName}: connection refused`));
    const run = async () => {
      await this.before[verb]?.(targetName);
      if (isInterrupted) return await promise;
      const failure = this.#failAllWith?.() ?? this.failures[verb]?.shift();
      if (failure !== undefined) throw failure;
      const answer = effect();
      await this.after[verb]?.(targetName);
      return answer;
    };
    try {
      return await Promise.race([promise, run()]);
    } finally {
      cancelTimer();
      this.#interrupts.delete(interrupt);
      signal?.removeEventListener("abort", onAbort);
    }
  }

  #answer(target: RequestTarget, { method, path, query = {}, body, contentType }: KubeRequest): unknown {
    const { resource, namespace, name, subresource } = target;
    if (resource.endsWith("/")) return this.#discover(path.replace(/^\/apis?\//, ""));
    const sentBody = copy(body) as KubeObject;
    if (name === undefined) {
      if (method === "GET") return this.#list(target, query);
      return copy(this.objects.create(resource, namespace, sentBody));
    }
    const key: ObjectKey = { resource, namespace, name };
    switch (method) {
      case "GET":
        return copy(this.objects.get(key));
      case "PUT":
        return copy(this.objects.update(key, sentBody, subresource));
      case "PATCH":
        return copy(this.objects.patch(key, (before) => applyPatch(before, sentBody, contentType), subresource));
      case "DELETE":
        return copy(this.objects.delete(key, (sentBody ?? {}) as Deletion));
      case "POST":
        if (subresource === "binding") {
          this.objects.bind(key, (sentBody as unknown as { target: { name: string } }).target.name);
          return { kind: "Status", status: "Success" };
        }
        if (subresource === "token") return this.#issueToken(key, sentBody as unknown as TokenRequest);
        throw statusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    }
  }

  #discover(groupVersion: string): unknown {
    const names = this.objects.servedNames(groupVersion);
    // The server has no document of such a group version: its 404 has no reason.
    if (names.length === 0) throw new KubeError("SERVER", "404 page not found", { status: 404 });
    return { kind: "APIResourceList", groupVersion, resources: names.map((name) => ({ name })) };
  }

  /** Issues a token whose text names the account and the audiences, so that a test can check it. */
  #issueToken(key: ObjectKey, { metadata = {}, spec }: TokenRequest): TokenRequest {
    const account = this.objects.get(key);
    if (metadata.uid !== undefined && metadata.uid !== account.metadata.uid)
      throw statusError(409, "Conflict", "the UID in the token request does not match the UID of the service account");
    const { audiences = [], expirationSeconds = 3600, boundObjectRef } = spec;
    if (expirationSeconds < 600)
      throw statusError(422, "Invalid", "spec.expirationSeconds: may not specify a duration less than 10 minutes");
    if (boundObjectRef !== undefined) this.#validateBoundPod(key, boundObjectRef);
    const token = `token ${++this.#tokens} of ${key.name} for ${audiences.join()}`;
    return {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      metadata: { ...metadata, name: key.name },
      spec: {
        ...spec,
        audiences: audiences.length > 0 ? audiences : ["https://kubernetes.default.svc"],
        expirationSeconds,
      },
      status: { token, expirationTimestamp: formatTime(this.#clock.now() + 1000 * expirationSeconds) },
    };
  }

  #validateBoundPod({ namespace, name: account }: ObjectKey, { name = "", uid }: BoundObjectReference): void {
    const pod = this.objects.get({ resource: "pods", namespace, name }) as unknown as Pod;
    if ((pod.spec.serviceAccountName || "default") !== account) {
      const why = `cannot bind token for serviceaccount "${account}" to pod running with different serviceaccount name.`;
      throw statusError(400, "BadRequest", why);
    }
    if (uid !== pod.metadata.uid) {
      const why = `the UID in the bound object reference (${uid}) does not match the UID in record. The object might have been deleted and then recreated`;
      throw statusError(409, "Conflict", `Operation cannot be fulfilled on pods "${name}": ${why}`);
    }
  }

  #list(target: RequestTarget, query: Readonly<Record<string, string | undefined>>): unknown {
    const { kind, apiVersion } = this.objects.kindOf(target.resource);
    const token = query["continue"];
    const list = token === undefined ? this.objects.select(target, query) : this.#pages.get(token);
    if (list === undefined) throw statusError(410, "Expired", "The provided continue parameter is too old");
    const limit = Number(query["limit"] ?? list.items.length);
    const remaining = list.items.slice(limit);
    const next = remaining.length === 0 ? undefined : `token-${++this.#tokens}`;
    if (next !== undefined) this.#pages.set(next, { ...list, items: remaining });
    const metadata = { resourceVersion: list.resourceVersion, continue: next };
    return copy({ kind: `${kind}List`, apiVersion, metadata, items: list.items.slice(0, limit).map(withoutKind) });
  }
}

function applyPatch(before: StoredObject, patch: unknown, contentType: string | undefined): unknown {
  const original = copy(before) as JsonObject;
  if (contentType === "application/merge-patch+json") return applyMergePatch(original, patch);
  if (contentType === "application/strategic-merge-patch+json" && isJsonObject(patch))
    return strategicMerge(original, patch);
  throw statusError(415, "UnsupportedMediaType", `the body of the request was in an unknown format: ${contentType}`);
}

function verbOf({ method }: KubeRequest, { name }: RequestTarget): KubeVerb {
  if (method === "GET") return name === undefined ? "list" : "get";
  return ({ POST: "create", PUT: "replace", PATCH: "patch", DELETE: "delete" } as const)[method];
}

/** The body at the time of sending: a function is evaluated then. */
const bodyOf = ({ body }: KubeRequest): unknown => (typeof body === "function" ? body() : body);

/** The items of a list carry no kind and apiVersion; the list does. */
const withoutKind = ({ kind: _, apiVersion: __, ...object }: StoredObject) => object;
/** A copy as after a transport as JSON. */
const copy = (value: unknown): unknown => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));

const userConnection: Pick<KubeConnection, "lines" | "state" | "close"> = {
  lines: async () => new KubeError("CLOSED", "`user` of the fake API server cannot watch"),
  state: () => ({ kind: "never connected" }),
  close: () => {},
};
