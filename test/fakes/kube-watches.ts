import type { Clock } from "../../host/clock.ts";
import type { KubeError } from "../../kube/error.ts";
import type { Selector } from "../../kube/resource.ts";
import { type FakeObjects, type StoredChange, statusError } from "./kube-objects.ts";
import { matchesTarget, type RequestTarget } from "./kube-request-target.ts";

interface Watch {
  readonly target: RequestTarget;
  readonly selector: Selector;
  readonly send: (line: unknown) => void;
  /** Stops sending, and stays open. */
  readonly mute: () => void;
  readonly end: (error?: KubeError) => void;
}

export interface WatchRequest {
  readonly target: RequestTarget;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly onLine: (line: unknown) => void;
  /** Called when the server ends the watch, cleanly if there is no error. */
  readonly onEnd: (error?: KubeError) => void;
}

const BOOKMARK_MS = 60_000;

/** The open watches of the fake API server, and the oldest version from which a new watch can resume. */
export class FakeWatches {
  readonly #objects: FakeObjects;
  readonly #clock: Clock;
  readonly #open = new Set<Watch>();
  #compactedUpTo = 0;

  constructor(objects: FakeObjects, clock: Clock) {
    this.#objects = objects;
    this.#clock = clock;
  }

  get size(): number {
    return this.#open.size;
  }

  breakAll(error?: KubeError): void {
    for (const { end } of [...this.#open]) end(error);
  }

  silence(): void {
    for (const { mute } of this.#open) mute();
  }

  /** Sends every creation since the start again, as a proxy that replays a part of a recorded answer. */
  repeatCreations(): void {
    for (const change of this.#objects.history) if (change.type === "ADDED") this.publish(change);
  }

  compact(): void {
    this.#compactedUpTo = this.#objects.version;
  }

  publish(change: StoredChange): void {
    for (const watch of this.#open) deliver(watch, change);
  }

  /** Opens a watch; the returned function closes it from the client's side. */
  open({ target, query, onLine, onEnd }: WatchRequest): () => void {
    const { kind, apiVersion } = this.#objects.kindOf(target.resource);
    let isOpen = true;
    let isMute = false;
    const timers = new Map<string, () => void>();
    const watch: Watch = {
      target,
      selector: query as Selector,
      send: (line) => {
        const text = JSON.stringify(line);
        // As over a network: never within the call that caused the event.
        if (!isMute) queueMicrotask(() => isOpen && onLine(JSON.parse(text)));
      },
      mute: () => {
        isMute = true;
      },
      end: (error) => {
        this.#open.delete(watch);
        queueMicrotask(() => {
          isOpen = false;
          onEnd(error);
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
    this.#replay(watch, query["resourceVersion"]);
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

  /** Sends the changes since a version, or all objects if there is no version. */
  #replay(watch: Watch, from: string | undefined): void {
    if (from === undefined) {
      for (const object of this.#objects.select(watch.target, watch.selector).items)
        watch.send({ type: "ADDED", object });
    } else if (Number(from) > this.#objects.version) {
      // The server sends nothing for a version in the future.
      watch.mute();
    } else if (Number(from) < this.#compactedUpTo) {
      const message = `too old resource version: ${from} (${this.#compactedUpTo})`;
      watch.send({
        type: "ERROR",
        object: { kind: "Status", status: "Failure", code: 410, reason: "Expired", message },
      });
      watch.end();
    } else for (const change of this.#objects.history) if (change.version > Number(from)) deliver(watch, change);
  }
}

/** Rule: validateWatchOptions. */
export function validateWatchOptions(query: WatchRequest["query"], hasInitialEvents: boolean): void {
  if (query["sendInitialEvents"] !== "true") return;
  if (!hasInitialEvents || query["resourceVersionMatch"] !== "NotOlderThan")
    throw statusError(422, "Invalid", "sendInitialEvents is forbidden for watch", "sendInitialEvents");
}

/**
 * A watch with a selector receives DELETED for an object that no longer matches, and ADDED for one that matches now.
 */
function deliver({ target, selector, send }: Watch, { type, resource, object, before }: StoredChange): void {
  if (resource !== target.resource) return;
  const matched = before !== undefined && matchesTarget(target, selector, before);
  const matches = type !== "DELETED" && matchesTarget(target, selector, object);
  // DELETED carries the last matching state, with the resourceVersion of the change.
  const metadata = { ...before?.metadata, resourceVersion: object.metadata.resourceVersion };
  if (matched && !matches) send({ type: "DELETED", object: { ...before, metadata } });
  else if (matches) send({ type: matched ? "MODIFIED" : "ADDED", object });
}
