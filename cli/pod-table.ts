import { basename } from "node:path/posix";
import type { PodListing, PodSummary } from "../agent/serve/local/pod-list.ts";
import { podState } from "../agent/serve/local/pod-state.ts";
import { escapeControlChars } from "../host/log/escape-control.ts";
import { ageOf } from "./age.ts";
import { alignColumns } from "./columns.ts";

const HEADER = ["NAMESPACE", "POD", "READY", "STATE", "RESTARTS", "IP", "AGE", "START (ms)"];

type RejectedManifest = NonNullable<PodListing["refused"]>[number];

/**
 * The text of `berth pods`: a table of the pods, then why pods are not ready, the rejected manifests and the runtime's
 * outage. Messages may come from a container, so control characters are escaped (CVE-2021-25743). `namespace`: only its
 * pods are listed.
 */
export function formatPods({ pods, refused = [], runtime }: PodListing, now = Date.now(), namespace?: string): string {
  const isRuntimeUnavailable = runtime !== undefined && runtime.state !== "ready";
  const blocks = [
    pods.length > 0
      ? tableOf(pods, now)
      : [
          `no pods${isRuntimeUnavailable ? " are known yet" : ""}${namespace === undefined ? "" : ` in namespace ${namespace}`}`,
        ],
    pods.flatMap((pod) => reasonLines(pod, now)),
    refused.map(rejectedLine),
    isRuntimeUnavailable ? [runtimeLine(runtime)] : [],
  ];
  return `${blocks
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.map(escapeControlChars).join("\n"))
    .join("\n\n")}\n`;
}

const LONG_PULL_MS = 60_000;

/**
 * Why a pod is not ready, and how long it waits for its images. The failure that keeps it from starting has the name by which
 * `berth status` counts it.
 */
function reasonLines(pod: PodSummary, now: number): readonly string[] {
  const { name, failure, reason, pulls = [] } = pod;
  const isBlocked = failure !== undefined && reason === "ContainerCreating" && pod.message !== "" && pulls.length === 0;
  const message = isBlocked ? `${failure}: ${pod.message}` : pod.message;
  const durations = pulls.map(({ image, since, attempt }) => {
    const attemptText = attempt === 1 ? "" : `, attempt ${attempt}`;
    return `${pulls.length === 1 ? "" : `${image} `}for ${ageOf(since, now)}${attemptText}`;
  });
  if (durations.length === 0) return message === "" ? [] : [`${name}: ${message}`];
  const isLong = pulls.some(({ since }) => now - Date.parse(since) >= LONG_PULL_MS);
  const hint = isLong ? "; the container runtime reports no progress" : "";
  return [`${name}: ${message || "images are being pulled"} (${durations.join(", ")}${hint})`];
}

/** The base name identifies a manifest, because all are in one directory. */
function rejectedLine({ file, problem }: RejectedManifest): string {
  return `${file.startsWith("/") ? basename(file) : file}: refused: ${problem}`;
}

function runtimeLine(runtime: Exclude<NonNullable<PodListing["runtime"]>, { readonly state: "ready" }>): string {
  if (runtime.state === "connecting") return "the container runtime has not answered yet";
  const state = runtime.state === "away" ? "away" : "not ready";
  return `the container runtime is ${state} since ${runtime.since}: ${runtime.message}`;
}

function tableOf(pods: readonly PodSummary[], now: number): readonly string[] {
  return alignColumns([HEADER, ...pods.map((pod) => cellsOf(pod, now))]);
}

function cellsOf(pod: PodSummary, now: number): readonly string[] {
  const { namespace, name, ready, restarts, ip, startTime, steps } = pod;
  return [namespace, name, ready, podState(pod), String(restarts), ip || "-", ageOf(startTime, now), stepsOf(steps)];
}

/** `volumes 1, sandbox 85, main: create 6 start 35` */
function stepsOf(steps: PodSummary["steps"]): string {
  const stepText = ({ what, ms }: PodSummary["steps"][number]) => `${what} ${Math.round(ms)}`;
  const podSteps = steps.filter(({ container }) => container === undefined).map(stepText);
  const byContainer = Map.groupBy(
    steps.filter(({ container }) => container !== undefined),
    ({ container }) => container,
  );
  const containerSteps = [...byContainer].map(([container, all]) => `${container}: ${all.map(stepText).join(" ")}`);
  return [...podSteps, ...containerSteps].join(", ") || "-";
}
