import type { Clock } from "../../host/clock.ts";
import type { KubeError } from "../../kube/error.ts";
import type { Selector } from "../../kube/resource.ts";
import { type Change, type KubeObjects, refusal } from "./kube-objects.ts";
import { isWithin, type Target } from "./kube-request-target.ts";

interface Watch {
  readonly target: Target;
  readonly selector: Selector;
  readonly send: (line: unknown) => void;
  /** Sends nothing any more, and stays open. */
  readonly mute: () => void;
  readonly end: (error?: KubeError) => void;
}

export interface WatchRequest {
  readonly target: Target;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly onLine: (line: unknown) => void;
  /** The server has ended it, in order if there is no error. */
  readonly ended: (error?: KubeError) => void;
}

const BOOKMARK_MS = 60_000;

/** The open watches of an API server, and how far back new ones may begin. */
export class FakeWatches {
  readonly #objects: KubeObjects;
  readonly #clock: Clock;
  readonly #open = new Set<Watch>();
  #forgottenUpTo = 0;

  constructor(objects: KubeObjects, clock: Clock) {
    this.#objects = objects;
    this.#clock = clock;
  }

  get size(): number {
    return this.#open.size;
  }

  cut(error?: KubeError): void {
    for (const { end } of [...this.#open]) end(error);
  }

  silence(): void {
    for (const { mute } of this.#open) mute();
  }

  forget(): void {
    this.#forgottenUpTo = this.#objects.version;
  }

  tell(change: Change): void {
    for (const watch of this.#open) deliver(watch, change);
  }

  /** Returns what closes it from the client's side. */
  open({ target, query, onLine, ended }: WatchRequest): () => void {
    const { kind, apiVersion } = this.#objects.kindOf(target.resource);
    let isOpen = true;
    let isMute = false;
    const timers = new Map<string, () => void>();
    const watch: Watch = {
      target,
      selector: query as Selector,
      send: (line) => {
        const text = JSON.stringify(line);
        // As over a wire: never within the call that was its cause.
        if (!isMute) queueMicrotask(() => isOpen && onLine(JSON.parse(text)));
      },
      mute: () => {
        isMute = true;
      },
      end: (error) => {
        this.#open.delete(watch);
        queueMicrotask(() => {
          isOpen = false;
          ended(error);
        });
      },
    };
    const bookmark = (annotations?: Readonly<Record<string, string>>) => {
      const metadata = { resourceVersion: String(this.#objects.version), annotations };
      watch.send({ type: "BOOKMARK", object: { kind, apiVersion, metadata } });
    };
    const everyMinute = () => {
      timers.set("bookmark", this.#clock.wakeAt(this.#clock.now() + BOOKMARK_MS, everyMinute));
      bookmark();
    };

    this.#open.add(watch);
    this.#sendPast(watch, query["resourceVersion"]);
    if (query["sendInitialEvents"] === "true") bookmark({ "k8s.io/initial-events-end": "true" });
    timers.set("bookmark", this.#clock.wakeAt(this.#clock.now() + BOOKMARK_MS, everyMinute));
    const endsAt = this.#clock.now() + Number(query["timeoutSeconds"] ?? 1800) * 1000;
    timers.set(
      "end",
      this.#clock.wakeAt(endsAt, () => watch.end()),
    );
    return () => {
      isOpen = false;
      this.#open.delete(watch);
      for (const cancel of timers.values()) cancel();
    };
  }

  /** What has happened since a version, or everything there is. */
  #sendPast(watch: Watch, from: string | undefined): void {
    if (from === undefined) {
      for (const object of this.#objects.select(watch.target, watch.selector).items)
        watch.send({ type: "ADDED", object });
    } else if (Number(from) > this.#objects.version) {
      // A place in the future is waited for.
      watch.mute();
    } else if (Number(from) < this.#forgottenUpTo) {
      const message = `too old resource version: ${from} (${this.#forgottenUpTo})`;
      watch.send({
        type: "ERROR",
        object: { kind: "Status", status: "Failure", code: 410, reason: "Expired", message },
      });
      watch.end();
    } else for (const change of this.#objects.history) if (change.version > Number(from)) deliver(watch, change);
  }
}

/** Rule: validateWatchOptions. */
export function refuseBadWatch(query: WatchRequest["query"], hasInitialEvents: boolean): void {
  if (query["sendInitialEvents"] !== "true") return;
  if (!hasInitialEvents || query["resourceVersionMatch"] !== "NotOlderThan")
    throw refusal(422, "Invalid", "sendInitialEvents is forbidden for watch", "sendInitialEvents");
}

/** To a watch with a selector, what no longer matches is deleted, and what matches now is added. */
function deliver({ target, selector, send }: Watch, { type, resource, object, before }: Change): void {
  if (resource !== target.resource) return;
  const was = before !== undefined && isWithin(target, selector, before);
  const is = type !== "DELETED" && isWithin(target, selector, object);
  // The last state of what is gone is the one that was, under the version of its end.
  const metadata = { ...before?.metadata, resourceVersion: object.metadata.resourceVersion };
  if (was && !is) send({ type: "DELETED", object: { ...before, metadata } });
  else if (is) send({ type: was ? "MODIFIED" : "ADDED", object });
}
