import { createTold, type Told } from "../../../host/async/event-source.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { isSameValue } from "../../../proto/kubernetes/semantic-equal.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { isLater, isTerminal } from "../../decide/sources/api-pod.ts";
import {
  changesReadiness,
  deletionDue,
  endPatch,
  mayWait,
  type StatusPatch,
  statusPatch,
} from "../../decide/status/status-patch.ts";
import { hasCode, isOutage, retryAfterMs } from "../retry.ts";
import { readPod } from "./decode-pod.ts";

export interface PodStatusSettings {
  readonly kube: Pick<Kube, "get" | "patch" | "delete">;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
  /** Nothing on the node will tell the last word on a pod any more: it has to be kept. Resolves when it is; never rejects. */
  readonly keepLast: (uid: PodUid, status: PodStatus) => Promise<void>;
}

/** The latest word on one pod, and how far it was told. */
export interface Slot {
  readonly uid: PodUid;
  wanted: PodStatus | undefined;
  stage: StageKind;
  /** As the API server last showed it, by its watch or by an answer, whichever is later. */
  api: Pod | undefined;
  work: Promise<void> | undefined;
  /** Something has changed since what to send was last looked at. */
  isDirty: boolean;
  cancelRetry: (() => void) | undefined;
  /** Of the time when something that is left alone for now is looked at again. A new word does not wait for it. */
  cancelLook: (() => void) | undefined;
  failures: number;
  /** What was made out last to be sent, and of what: it is asked for several times a call. */
  made: { readonly api: Pod; readonly wanted: PodStatus; readonly patch: StatusPatch | undefined } | undefined;
  /** What the server took, and had to be said again as it was. */
  idle: string | undefined;
  /** What the server did not take, as it was, and until when it is not sent again. */
  refused: ReadonlyMap<string, number>;
  /** The word that the server took last, how often in a row, and when. */
  taken: { readonly wanted: PodStatus; readonly times: number; readonly at: number } | undefined;
  /** Since when no more is to be told than what may wait for the next word. */
  waitsSince: number | undefined;
  /** A patch that nobody has answered may have been carried out, so that `api` may be older than what we have said ourselves. */
  isUnsure: boolean;
  /** The pod of the API that we have removed. */
  removedUid: string | undefined;
  readonly told: Told;
}

/** Made anew when its turn has come. */
interface PatchCall {
  readonly kind: "patch";
  readonly api: Pod;
  patch: StatusPatch;
  wanted: PodStatus;
}

type Call = PatchCall | { readonly kind: "look"; readonly api: Pod } | { readonly kind: "delete"; readonly api: Pod };

/** Changes nothing. */
const NO_NEWS: StatusPatch = { status: {} };

const NOT_TOLD = "its status cannot be told to the API server";
const NOT_REMOVED = "it cannot be removed from the API";

/** What makes a server refuse a status may be put right there, with nobody telling us. */
const REFUSED_MS = 300_000;
/** Somebody who has written over a word so often will do so again. */
const FREE_TIMES = 3;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
/** How long what may wait for the next word does: one request instead of two for most pods that start, and for most that end. */
const NEXT_WORD_MS = 1_000;
/** A word that has stood for so long is said again at once. */
const ROW_MS = 300_000;

/**
 * Sends what a slot still has to tell, one call after the other, until there is nothing more; what fails is sent again later, as the
 * slot is then. The function returned begins that, unless it is under way or has to wait. It never throws.
 */
export function createSlotWork(settings: PodStatusSettings, stopping: AbortSignal): (slot: Slot) => void {
  const { clock, random } = settings;

  function wake(slot: Slot): void {
    if (stopping.aborted || slot.cancelRetry !== undefined) return;
    slot.isDirty = true;
    slot.work ??= work(slot).finally(() => {
      slot.work = undefined;
      // What has come between the last look and this line found work under way, and left it to us.
      if (slot.isDirty) wake(slot);
    });
  }

  /** Never rejects. */
  async function work(slot: Slot): Promise<void> {
    await Promise.resolve();
    for (;;) {
      slot.isDirty = false;
      slot.cancelLook?.();
      slot.cancelLook = undefined;
      let call: Call | undefined;
      try {
        const next = stopping.aborted ? undefined : nextCall(slot, clock.now());
        if (next === undefined) return;
        if (next.kind === "wait") return lookAgain(slot, next.until);
        call = next;
        await send(settings, slot, call, stopping);
        // That it can be read is no sign that it can be written.
        if (call.kind !== "look") {
          slot.failures = 0;
          slot.told.clear();
        }
      } catch (error) {
        if (call === undefined) takeTrouble(settings, slot, error);
        else await takeFailure(settings, slot, call, error, stopping);
        if (slot.failures > 0) return waitToRetry(slot, error);
      }
    }
  }

  function lookAgain(slot: Slot, at: number): void {
    slot.cancelLook = clock.wakeAt(at, () => {
      slot.cancelLook = undefined;
      wake(slot);
    });
  }

  function waitToRetry(slot: Slot, error: unknown): void {
    slot.isDirty = false;
    if (stopping.aborted) return;
    const delayMs = retryAfterMs(slot.failures, error) * (1 + random() / 2);
    slot.cancelRetry = clock.wakeAt(clock.now() + delayMs, () => {
      slot.cancelRetry = undefined;
      wake(slot);
    });
  }

  return wake;
}

/** A pod of which nothing was told yet. */
export function emptySlot(uid: PodUid): Slot {
  return {
    uid,
    wanted: undefined,
    stage: "syncing",
    api: undefined,
    work: undefined,
    isDirty: false,
    cancelRetry: undefined,
    cancelLook: undefined,
    failures: 0,
    made: undefined,
    idle: undefined,
    refused: new Map(),
    taken: undefined,
    waitsSince: undefined,
    isUnsure: false,
    removedUid: undefined,
    told: createTold(),
  };
}

/** What was said of a life that is over does not bear on the next one. What the API server has stays known. */
export function emptyWord(): Pick<Slot, "wanted" | "stage" | "failures" | "idle" | "refused" | "taken" | "waitsSince"> {
  const { wanted, stage, failures, idle, refused, taken, waitsSince } = emptySlot("" as PodUid);
  return { wanted, stage, failures, idle, refused, taken, waitsSince };
}

function nextCall(slot: Slot, now: number): Call | { readonly kind: "wait"; readonly until: number } | undefined {
  const { wanted, api, stage, removedUid } = slot;
  if (wanted === undefined || api === undefined) return undefined;
  if (slot.isUnsure) return { kind: "look", api };
  const whole = patchOf(slot, api, wanted, now);
  const waits = whole !== undefined && mayWait(api, whole, wanted, stage);
  // Never in the future, where the clock was set back.
  slot.waitsSince = waits ? Math.min(slot.waitsSince ?? now, now) : undefined;
  const patches = whole === undefined ? [] : [whole, endPatch(api, whole, stage) ?? []].flat();
  const patch = patches.find((each) => dueOf(slot, wanted, each) <= now);
  if (patch !== undefined) return { kind: "patch", api, patch, wanted };
  if (deletionDue(api, stage) && removedUid !== api.metadata.uid) return { kind: "delete", api };
  const until = Math.min(...patches.map((each) => dueOf(slot, wanted, each)));
  return until === Number.POSITIVE_INFINITY ? undefined : { kind: "wait", until };
}

function patchOf(slot: Slot, api: Pod, wanted: PodStatus, now: number): StatusPatch | undefined {
  if (slot.made?.api !== api || slot.made.wanted !== wanted)
    slot.made = { api, wanted, patch: statusPatch(api, wanted, now) };
  return slot.made.patch;
}

function dueOf({ idle, refused, taken, waitsSince }: Slot, wanted: PodStatus, patch: StatusPatch): number {
  const text = JSON.stringify(patch);
  if (text === idle) return Number.POSITIVE_INFINITY;
  const isAgain = taken !== undefined && taken.times >= FREE_TIMES && isSameValue(taken.wanted, wanted);
  const pauseMs = isAgain
    ? Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(taken.times - FREE_TIMES, 16))
    : 0;
  const toldAt = waitsSince === undefined ? 0 : waitsSince + NEXT_WORD_MS;
  return Math.max(refused.get(text) ?? 0, (isAgain ? taken.at : 0) + pauseMs, toldAt);
}

/** Another agent of this name, or whoever changes what we send, makes a word be said again and again. */
function noteTaken(slot: Slot, { patch, wanted }: PatchCall, answer: Pod, now: number): void {
  if (patch === NO_NEWS) return;
  const { taken } = slot;
  const isInRow = taken !== undefined && now - taken.at < ROW_MS && isSameValue(taken.wanted, wanted);
  slot.taken = { wanted, times: isInRow ? taken.times + 1 : 1, at: now };
  // A patch that changes nothing, such as `1.0` for `1`, or that a webhook takes back, would be sent for ever.
  const again = patchOf(slot, answer, wanted, now);
  const text = JSON.stringify(patch);
  slot.idle = again !== undefined && JSON.stringify(again) === text ? text : undefined;
}

/**
 * The patch as it is when its turn has come: under a flood that is seconds after it was made out first. The turn may be lost on a word
 * that was taken back meanwhile.
 */
function latest(slot: Slot, call: PatchCall, now: number): StatusPatch {
  const next = nextCall(slot, now);
  const isOfSame = next?.kind === "patch" && next.api.metadata.uid === call.api.metadata.uid;
  Object.assign(call, isOfSame ? { patch: next.patch, wanted: next.wanted } : { patch: NO_NEWS });
  return call.patch;
}

async function send(settings: PodStatusSettings, slot: Slot, call: Call, signal: AbortSignal): Promise<void> {
  const { kube, clock } = settings;
  const { name = "", namespace, uid = "" } = call.api.metadata;
  const resource = pods(namespace);
  if (call.kind === "delete") {
    await kube.delete(resource, name, { gracePeriodSeconds: 0, preconditions: { uid } }, { signal });
    slot.removedUid = uid;
    return;
  }
  if (call.kind === "look") {
    const now = readPod(await kube.get(resource, name, { signal }));
    if (now.metadata.uid !== uid) forget(slot, uid);
    else if (
      slot.api?.metadata.uid === uid &&
      !isLater(slot.api.metadata.resourceVersion, now.metadata.resourceVersion)
    )
      slot.api = now;
    slot.isUnsure = false;
    return;
  }
  const body = () => latest(slot, call, clock.now());
  const patch = { type: "strategic", subresource: "status", uid, body } as const;
  // Traffic goes where a pod is ready.
  const isUrgent = () => changesReadiness(slot.api, slot.wanted);
  const answer = readAnswer(await kube.patch(resource, name, patch, { signal, isUrgent }), slot.api);
  const isStillThere = slot.api?.metadata.uid === uid;
  if (isStillThere && isLater(answer.metadata.resourceVersion, slot.api?.metadata.resourceVersion)) slot.api = answer;
  noteTaken(slot, call, answer, clock.now());
}

/** The watch may have shown the same already: that was read then. */
function readAnswer(answer: Pod, shown: Pod | undefined): Pod {
  const { uid, resourceVersion } = (answer.metadata as Pod["metadata"] | undefined) ?? {};
  const isShown =
    uid !== undefined && uid === shown?.metadata.uid && resourceVersion === shown.metadata.resourceVersion;
  return isShown ? shown : readPod(answer);
}

/** Afterwards `failures` says whether to wait: it is 0 where there is nothing to be sent again. Never rejects. */
async function takeFailure(
  settings: PodStatusSettings,
  slot: Slot,
  call: Call,
  error: unknown,
  signal: AbortSignal,
): Promise<void> {
  const { kube, clock, log } = settings;
  const { name = "", namespace, uid } = call.api.metadata;
  slot.failures += 1;
  if (call.kind === "patch" && isUnanswered(error)) slot.isUnsure = true;
  if (hasCode(error, "NOT_FOUND") && call.kind !== "delete") return forget(slot, uid);
  if (hasCode(error, "CONFLICT", "NOT_FOUND")) {
    // Either another pod has this name now, or many write to this one; who asks learns which. And the API server looks up who may
    // delete a pod in a memory of its own, which may not have the pod yet.
    const asked = kube.get(pods(namespace), name, { signal });
    const now = await asked.then(readPod).catch((failure: unknown) => failure);
    if (hasCode(now, "NOT_FOUND") || (isPod(now) && now.metadata.uid !== uid)) return forget(slot, uid);
    if (isPod(now) && slot.api?.metadata.uid === uid) slot.api = now;
    return;
  }
  if (!isOutage(error)) tellOnce(log, slot, call.api, call.kind === "delete" ? NOT_REMOVED : NOT_TOLD, error);
  if (call.kind === "patch" && hasCode(error, "INVALID", "TOO_LARGE")) {
    const now = clock.now();
    const others = [...slot.refused].filter(([, until]) => until > now);
    slot.refused = new Map([...others, [JSON.stringify(call.patch), now + REFUSED_MS]]);
    slot.failures = 0;
  }
}

/** What to tell could not even be made out: that is the trouble of this pod alone. */
function takeTrouble({ log }: PodStatusSettings, slot: Slot, error: unknown): void {
  slot.failures += 1;
  if (slot.api !== undefined) tellOnce(log, slot, slot.api, NOT_TOLD, error);
}

/** The pod of the API is no more; its watch says so too, sooner or later. */
function forget(slot: Slot, uid: string | undefined): void {
  if (slot.api?.metadata.uid === uid) slot.api = undefined;
  slot.failures = 0;
}

function isUnanswered(error: unknown): boolean {
  const isUnprocessed = error instanceof KubeError && error.isUnprocessed;
  return hasCode(error, "UNREACHABLE", "TIMEOUT", "CLOSED") && !isUnprocessed;
}

function isPod(value: unknown): value is Pod {
  return typeof value === "object" && value !== null && "metadata" in value;
}

/** What has to be told of a pod that goes before nothing of it is left; undefined where the API server has heard it, or need not. */
export function untoldEnd({ wanted, stage, api }: Slot): PodStatus | undefined {
  const isEnding = api === undefined ? stage !== "syncing" : api.metadata.deletionTimestamp !== undefined;
  return isEnding && wanted !== undefined && isTerminal(wanted) && !isTerminal(api?.status) ? wanted : undefined;
}

function tellOnce(log: Log, slot: Slot, pod: Pod, sentence: string, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  if (!slot.told.isNews(message)) return;
  log.warn({ pod: fullNameOf(pod), uid: slot.uid, err: error }, sentence);
}
