import type { Clock } from "../../host/clock.ts";
import { createKube, type Kube, type Patch } from "../../kube/client.ts";
import { KubeError } from "../../kube/error.ts";
import type { KubeObject, Resource, Selector } from "../../kube/resource.ts";
import type { Connection, ConnectionState, KubeRequest, LinesRequest } from "../../kube/transport/connection.ts";
import { createLanes, type Lanes, type Rates } from "../../kube/transport/flow-control.ts";
import type { CallOptions, KubeList } from "../../kube/watch/list.ts";
import type { FollowListener } from "../../kube/watch/reflector.ts";
import type { TokenRequest } from "../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../proto/kubernetes/time.ts";
import { type Deletion, KubeObjects, type Place, refusal, type Stored } from "./kube-objects.ts";
import { isJsonObject, type Json, type JsonObject, mergePatch, strategicMerge } from "./kube-patch.ts";
import { aboutOf, type Target, targetOf } from "./kube-request-target.ts";
import { FakeWatches, refuseBadWatch } from "./kube-watches.ts";
import { FakeLog } from "./log.ts";

export type KubeVerb = "get" | "list" | "watch" | "create" | "replace" | "patch" | "delete";
/** What a call is about, as the journal shows it: `pods/shop/web/status`, `nodes`. */
export type KubeHook = (about: string) => Promise<void> | void;

export interface FakeKubeOptions {
  readonly clock: Clock;
  /** Where the follow says what it has to say. */
  readonly log?: FakeLog;
  /** The jitter of its back-off; none if left out. */
  readonly random?: () => number;
  /** What the client is held to before a request goes out; nothing if left out. */
  readonly rates?: Rates;
}

const DEADLINE_MS = 30_000;

/**
 * An API server in memory. As a `Kube` it is the real client on a connection that ends here, so that paging, resuming and back-off
 * are the real ones; as a `Connection` it answers requests. `user` is somebody else on the same cluster, whose calls never fail and
 * stand in no journal.
 */
export class FakeKube implements Kube, Connection {
  readonly objects: KubeObjects;
  readonly user: Kube;
  /** Every call, in order: the verb and what it is about. */
  readonly calls: string[] = [];
  /** Fails the next calls of a verb before they have any effect, oldest first. */
  failures: Partial<Record<KubeVerb, KubeError[]>> = {};
  /** Awaited before a verb has its effect; it may throw. */
  before: Partial<Record<KubeVerb, KubeHook>> = {};
  /** Awaited between a verb's effect and its answer; it may throw. */
  after: Partial<Record<KubeVerb, KubeHook>> = {};
  /** Whether watches tell everything there is when they are asked to. */
  hasInitialEvents = true;

  readonly #clock: Clock;
  readonly #lanes: Lanes | undefined;
  readonly #kube: Kube;
  readonly #watches: FakeWatches;
  readonly #interrupts = new Set<(error: KubeError) => void>();
  readonly #pages = new Map<string, KubeList<Stored>>();
  #tokens = 0;
  #isDown = false;
  #refusal: (() => KubeError) | undefined;

  constructor({ clock, log = new FakeLog(), random = () => 0, rates }: FakeKubeOptions) {
    this.#clock = clock;
    this.#lanes = rates && createLanes(rates, clock);
    this.objects = new KubeObjects(clock, (change) => this.#watches.tell(change));
    this.#watches = new FakeWatches(this.objects, clock);
    this.#kube = createKube({ connection: this, clock, log, random });
    const direct = {
      ...silentConnection,
      request: async (request: KubeRequest) => this.#answer(targetOf(request), { ...request, body: bodyOf(request) }),
    };
    this.user = createKube({ connection: direct, clock, log, random });
  }

  get = <T extends KubeObject>(resource: Resource<T>, name: string, options?: CallOptions): Promise<T> =>
    this.#kube.get(resource, name, options);
  list = <T extends KubeObject>(
    resource: Resource<T>,
    selector: Selector,
    options?: CallOptions,
  ): Promise<KubeList<T>> => this.#kube.list(resource, selector, options);
  create = <T extends KubeObject>(resource: Resource<T>, object: T, options?: CallOptions): Promise<T> =>
    this.#kube.create(resource, object, options);
  requestToken = (namespace: string, account: string, request: TokenRequest, options?: CallOptions) =>
    this.#kube.requestToken(namespace, account, request, options);
  replace = <T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options?: CallOptions & { readonly subresource?: "status" },
  ): Promise<T> => this.#kube.replace(resource, object, options);
  patch = <T extends KubeObject>(
    resource: Resource<T>,
    name: string,
    patch: Patch,
    options?: CallOptions,
  ): Promise<T> => this.#kube.patch(resource, name, patch, options);
  delete = (resource: Resource, name: string, deletion?: Deletion, options?: CallOptions): Promise<void> =>
    this.#kube.delete(resource, name, deletion, options);
  follow = <T extends KubeObject>(
    resource: Resource<T>,
    selector: Selector,
    listener: FollowListener<T>,
    signal: AbortSignal,
  ): Promise<void> => this.#kube.follow(resource, selector, listener, signal);
  onRecovery = (recovered: () => void, signal: AbortSignal): void => this.#kube.onRecovery(recovered, signal);

  /** As the scheduler does it. */
  bind(namespace: string, name: string, nodeName: string): void {
    this.objects.bind({ resource: "pods", namespace, name }, nodeName);
  }

  /** The server's process dies; watches break, and calls fail with UNREACHABLE until `comeBack`. */
  goDown(): void {
    this.#isDown = true;
    const error = new KubeError("UNREACHABLE", "the API server is down", { isUnprocessed: false });
    for (const interrupt of this.#interrupts) interrupt(error);
    this.cutWatches(error);
  }

  comeBack(): void {
    this.#isDown = false;
  }

  /** The server is in trouble: watches break, and calls are answered so, without effect, until the function returned is called. */
  refuse(answer: () => KubeError): () => void {
    this.#refusal = answer;
    this.cutWatches(answer());
    return () => {
      if (this.#refusal === answer) this.#refusal = undefined;
    };
  }

  /** Ends every watch, in order if no error is given. */
  cutWatches(error?: KubeError): void {
    this.#watches.cut(error);
  }

  /** Keeps everything as it is now. What is returned ends every watch, and the server has all of that again, as etcd from a snapshot. */
  backup(): () => void {
    const restore = this.objects.backup();
    return () => {
      restore();
      this.#pages.clear();
      this.cutWatches(new KubeError("CLOSED", "the API server was restored"));
    };
  }

  /** The watches that are open stay open, and never say a word again. */
  silence(): void {
    this.#watches.silence();
  }

  /** How many watches are open. */
  get watches(): number {
    return this.#watches.size;
  }

  /** The past is forgotten: whoever resumes from before now, or is in the middle of a list, has to list anew. */
  compact(): void {
    this.#watches.forget();
    this.#pages.clear();
  }

  /** Holds every call of the verb, before it has any effect, until the function returned is called. */
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
    const target = targetOf(request);
    const verb = verbOf(request, target);
    const { lane = "main", signal = new AbortController().signal, isUrgent } = request;
    const leave = await this.#lanes?.enter(lane, false, signal, isUrgent);
    try {
      const sent = { ...request, body: bodyOf(request) };
      return await this.#call(verb, target, request, () => this.#answer(target, sent));
    } finally {
      leave?.();
    }
  }

  async lines(
    request: LinesRequest,
    onLine: (line: unknown) => void,
    opened?: () => void,
  ): Promise<KubeError | undefined> {
    const target = targetOf(request);
    const { promise, resolve } = Promise.withResolvers<KubeError | undefined>();
    const cancel = () => resolve(new KubeError("CANCELLED", "cancelled"));
    // Whoever hears of something may end the watch while it is being opened.
    let close = () => {};
    try {
      const open = () => {
        const query = request.query ?? {};
        refuseBadWatch(query, this.hasInitialEvents);
        opened?.();
        close = this.#watches.open({ target, query, onLine, ended: resolve });
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
    target: Target,
    { deadlineMs, signal }: Pick<KubeRequest, "deadlineMs" | "signal">,
    effect: () => T,
  ): Promise<T> {
    const about = aboutOf(target);
    this.calls.push(`${verb} ${about}`);
    const { promise, reject } = Promise.withResolvers<never>();
    let isInterrupted = false;
    const interrupt = (error: KubeError) => {
      isInterrupted = true;
      reject(error);
    };
    const onAbort = () => interrupt(new KubeError("CANCELLED", `${verb} ${about}: cancelled`));
    const late = () => interrupt(new KubeError("TIMEOUT", `${verb} ${about}: no answer within ${deadlineMs} ms`));
    const cancelTimer = this.#clock.wakeAt(this.#clock.now() + deadlineMs, late);
    this.#interrupts.add(interrupt);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    if (this.#isDown) interrupt(new KubeError("UNREACHABLE", `${verb} ${about}: connection refused`));
    const run = async () => {
      await this.before[verb]?.(about);
      if (isInterrupted) return await promise;
      const failure = this.#refusal?.() ?? this.failures[verb]?.shift();
      if (failure !== undefined) throw failure;
      const answer = effect();
      await this.after[verb]?.(about);
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

  #answer(target: Target, { method, query = {}, body, contentType }: KubeRequest): unknown {
    const { resource, namespace, name, subresource } = target;
    const sent = copy(body) as KubeObject;
    if (name === undefined) {
      if (method === "GET") return this.#list(target, query);
      return copy(this.objects.create(resource, namespace, sent));
    }
    const place: Place = { resource, namespace, name };
    switch (method) {
      case "GET":
        return copy(this.objects.get(place));
      case "PUT":
        return copy(this.objects.update(place, sent, subresource));
      case "PATCH":
        return copy(this.objects.patch(place, (before) => patched(before, sent, contentType), subresource));
      case "DELETE":
        return copy(this.objects.delete(place, (sent ?? {}) as Deletion));
      case "POST":
        if (subresource === "binding") {
          this.objects.bind(place, (sent as unknown as { target: { name: string } }).target.name);
          return { kind: "Status", status: "Success" };
        }
        if (subresource === "token") return this.#token(place, sent as unknown as TokenRequest);
        throw refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    }
  }

  /** It says for what it was given, so that a test can tell. */
  #token(place: Place, { metadata = {}, spec }: TokenRequest): TokenRequest {
    const account = this.objects.get(place);
    if (metadata.uid !== undefined && metadata.uid !== account.metadata.uid)
      throw refusal(409, "Conflict", "the UID in the token request does not match the UID of the service account");
    const token = `token ${++this.#tokens} of ${place.name} for ${(spec.audiences ?? []).join()}`;
    const expirationTimestamp = formatTime(this.#clock.now() + 1000 * (spec.expirationSeconds ?? 3600));
    return {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      metadata: { ...metadata, name: place.name },
      spec,
      status: { token, expirationTimestamp },
    };
  }

  #list(target: Target, query: Readonly<Record<string, string | undefined>>): unknown {
    const { kind, apiVersion } = this.objects.kindOf(target.resource);
    const token = query["continue"];
    const list = token === undefined ? this.objects.select(target, query) : this.#pages.get(token);
    if (list === undefined) throw refusal(410, "Expired", "The provided continue parameter is too old");
    const limit = Number(query["limit"] ?? list.items.length);
    const rest = list.items.slice(limit);
    const next = rest.length === 0 ? undefined : `token-${++this.#tokens}`;
    if (next !== undefined) this.#pages.set(next, { ...list, items: rest });
    const metadata = { resourceVersion: list.resourceVersion, continue: next };
    return copy({ kind: `${kind}List`, apiVersion, metadata, items: list.items.slice(0, limit).map(withoutKind) });
  }
}

function patched(before: Stored, patch: Json, contentType: string | undefined): Json {
  const original = copy(before) as JsonObject;
  if (contentType === "application/merge-patch+json") return mergePatch(original, patch);
  if (contentType === "application/strategic-merge-patch+json" && isJsonObject(patch))
    return strategicMerge(original, patch);
  throw refusal(415, "UnsupportedMediaType", `the body of the request was in an unknown format: ${contentType}`);
}

function verbOf({ method }: KubeRequest, { name }: Target): KubeVerb {
  if (method === "GET") return name === undefined ? "list" : "get";
  return ({ POST: "create", PUT: "replace", PATCH: "patch", DELETE: "delete" } as const)[method];
}

/** As it is when it goes out. */
const bodyOf = ({ body }: KubeRequest): unknown => (typeof body === "function" ? body() : body);

/** The items of a list do not say what they are; the list does. */
const withoutKind = ({ kind: _, apiVersion: __, ...object }: Stored) => object;
/** As over a wire. */
const copy = (value: unknown): unknown => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));

const silentConnection: Pick<Connection, "lines" | "state" | "close"> = {
  lines: async () => new KubeError("CLOSED", "a user of the fake does not watch"),
  state: () => ({ kind: "never connected" }),
  close: () => {},
};
