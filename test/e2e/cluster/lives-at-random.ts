import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Container, ContainerStatus, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images.ts";
import { holding } from "../holders.ts";
import { script } from "../manifest.ts";
import { barePod } from "./objects.ts";

/** A pod with a life of its own, and what it must have come to when everything around it has calmed down. */
export interface RandomLife {
  readonly name: string;
  readonly kind: Kind;
  readonly pod: ReturnType<typeof barePod>;
  /** When it is deleted, in milliseconds from the beginning; undefined: never. */
  readonly deletedAtMs: number | undefined;
}

const KINDS = [
  ...["once", "tries", "stays", "crashes", "initialized", "served", "hooked", "warms", "restarts", "deleted", "forced"],
] as const;
type Kind = (typeof KINDS)[number];

/** What its containers have noted of themselves, in order: `main began`, `main ended 3`. */
type Notes = readonly string[];

/** `count` lives, of each kind about as many. What containers note goes to a folder per pod below `folder`. */
export function livesAtRandom(count: number, random: () => number, folder: string): readonly RandomLife[] {
  return Array.from({ length: count }, (_, at) => {
    const kind = KINDS[at % KINDS.length] ?? "once";
    const name = `${kind}-${at}`;
    const lasts = (random() * 12).toFixed(1);
    const code = random() < 0.5 ? 0 : 3;
    const isDeleted = kind === "deleted" || kind === "forced";
    const deletedAtMs = isDeleted ? random() * 30_000 : undefined;
    const lot = { lasts, code, notes: join(folder, name), held: heldFolder(folder) };
    return { name, kind, deletedAtMs, pod: podOfKind(kind, name, lot) };
  });
}

interface Lot {
  readonly lasts: string;
  readonly code: number;
  readonly notes: string;
  readonly held: string;
}

/** The first instance of a container is dead, the next ones are alive, wherever one of them is cut short. */
const DEAD_AT_FIRST =
  "test ! -e /notes/dead || touch /notes/revived; if test -e /notes/revived; then rm -f /notes/dead; else touch /notes/dead; fi";

function podOfKind(kind: Kind, name: string, { lasts, code, notes, held }: Lot): RandomLife["pod"] {
  const mounts = [
    { name: "notes", mountPath: "/notes" },
    { name: "held", mountPath: "/held" },
  ];
  const noting = (container: string, text: string): Partial<Container> => ({
    volumeMounts: mounts,
    command: script(`${holding("/held", `${name} ${container}`)}; echo ${container} began >> /notes/all; ${text}`),
  });
  const ends = (container: string, exitCode: number) =>
    `echo ${container} ended ${exitCode} >> /notes/all; exit ${exitCode}`;
  const extra = (container: string, text: string, more: Partial<Container> = {}): Container => ({
    name: container,
    image: busyboxImage,
    imagePullPolicy: "IfNotPresent",
    ...noting(container, text),
    ...more,
  });
  const spec: Partial<PodSpec> = {
    terminationGracePeriodSeconds: 2,
    volumes: [
      { name: "notes", hostPath: { path: notes, type: "DirectoryOrCreate" } },
      { name: "held", hostPath: { path: held, type: "Directory" } },
    ],
  };
  const main = (text: string, more: Partial<PodSpec>) => barePod(name, noting("main", text), { ...spec, ...more });
  switch (kind) {
    case "once":
      return main(`sleep ${lasts}; ${ends("main", code)}`, { restartPolicy: "Never" });
    case "tries":
      return main(`sleep 1; test -e /notes/tried && { ${ends("main", 0)}; }; touch /notes/tried; ${ends("main", 4)}`, {
        restartPolicy: "OnFailure",
      });
    case "crashes":
      return main(`sleep ${lasts}; ${ends("main", 1)}`, { restartPolicy: "Always" });
    case "initialized":
      return main(ends("main", code), {
        restartPolicy: "Never",
        initContainers: [extra("first", `sleep 1; ${ends("first", 0)}`), extra("second", ends("second", 0))],
      });
    case "served":
      return main(`sleep ${lasts}; ${ends("main", code)}`, {
        restartPolicy: "Never",
        initContainers: [extra("side", "sleep 1000000", { restartPolicy: "Always" })],
      });
    case "hooked":
      // Without its hook it would never end.
      return barePod(
        name,
        {
          ...noting("main", `until test -e /notes/hooked; do sleep 0.1; done; ${ends("main", code)}`),
          lifecycle: { postStart: { exec: { command: script("sleep 0.5; touch /notes/hooked") } } },
        },
        { ...spec, restartPolicy: "Never" },
      );
    case "warms":
      return barePod(
        name,
        {
          ...noting("main", `sleep ${lasts}; touch /notes/warm; sleep 1000000`),
          readinessProbe: { exec: { command: ["test", "-e", "/notes/warm"] }, periodSeconds: 1, timeoutSeconds: 20 },
        },
        { ...spec, restartPolicy: "Always" },
      );
    case "restarts":
      // Dead until it was restarted, however often nobody hears what its probe has found.
      return barePod(
        name,
        {
          ...noting("main", `${DEAD_AT_FIRST}; sleep 1000000`),
          livenessProbe: {
            exec: { command: script("test ! -e /notes/dead") },
            periodSeconds: 1,
            timeoutSeconds: 20,
            failureThreshold: 1,
          },
        },
        { ...spec, restartPolicy: "Always" },
      );
    case "stays":
    case "deleted":
    case "forced":
      return main("sleep 1000000", { restartPolicy: "Always" });
  }
}

/** Where the containers of all lives hold a file each. */
export const heldFolder = (folder: string) => join(folder, "held");

/** What a life has noted so far. */
export async function notesOf(folder: string, name: string): Promise<Notes> {
  const text = await readFile(join(folder, name, "all"), "utf8").catch(() => "");
  return text.split("\n").filter((line) => line !== "");
}

/**
 * What is wrong with a life now that all is calm, in a sentence; undefined: nothing. What a container has noted is the truth. One that
 * could not note its end was ended from outside, by the death of what it depends on: its pod counts as failed. So does one whose end the
 * runtime has forgotten together with its own life, and calls `Unknown`.
 */
export function whatIsWrong(
  { name, kind }: RandomLife,
  pod: Pod | undefined,
  notes: Notes,
  living: ReadonlyMap<string, number>,
): string | undefined {
  const alive = [...living].filter(([of]) => of.startsWith(`${name} `)).map(([of, n]) => `${n} × ${of}`);
  const wrong = wrongOf(kind, pod, notes, alive.length);
  return (
    wrong &&
    `${name}: ${wrong}; it noted ${JSON.stringify(notes)}, lives as [${alive}], and is shown as ${summaryOf(pod)}`
  );
}

function wrongOf(kind: Kind, pod: Pod | undefined, notes: Notes, alive: number): string | undefined {
  if (kind === "deleted" || kind === "forced") return pod !== undefined || alive > 0 ? "it is still there" : undefined;
  if (pod === undefined) return "it is gone";
  return LASTING.has(kind) ? wrongOfLasting(kind, pod, notes, alive) : wrongOfEnding(kind, pod, notes, alive);
}

const LASTING: ReadonlySet<Kind> = new Set(["stays", "crashes", "warms", "restarts"]);

const begun = (notes: Notes) => notes.filter((line) => line === "main began").length;
const isTrue = (pod: Pod, type: string) =>
  pod.status?.conditions?.find((condition) => condition.type === type)?.status === "True";

function wrongOfLasting(kind: Kind, pod: Pod, notes: Notes, alive: number): string | undefined {
  const main = pod.status?.containerStatuses?.[0];
  const restarts = main?.restartCount ?? 0;
  // An instance that could not be started counts too, and notes nothing.
  if (restarts < begun(notes) - 1) return `it began ${begun(notes)} times`;
  if (kind === "crashes") {
    if (pod.status?.phase !== "Running" || alive > 1 || begun(notes) < 2) return "it is not in its loop";
    const isInLoop = main?.state?.running !== undefined || main?.state?.waiting?.reason === "CrashLoopBackOff";
    return isInLoop && main.lastState?.terminated !== undefined ? undefined : "it is not shown as in its loop";
  }
  if (pod.status?.phase !== "Running" || !main?.ready || alive !== 1) return "it does not run once";
  if (!isTrue(pod, "Ready") || !isTrue(pod, "ContainersReady")) return "its conditions do not say that it is ready";
  return kind === "restarts" && restarts === 0 ? "it was not restarted" : undefined;
}

function wrongOfEnding(kind: Kind, pod: Pod, notes: Notes, alive: number): string | undefined {
  if (alive > 0) return "it runs, and should have ended";
  const main = pod.status?.containerStatuses?.[0];
  const { phase } = pod.status ?? {};
  const ends = notes.filter((line) => line.startsWith("main ended"));
  const isForgotten = main?.state?.terminated?.reason === "Unknown" && main.state.terminated.exitCode === 255;
  const code = isForgotten ? "255" : ends.at(-1)?.split(" ").at(-1);
  if (isTrue(pod, "Ready") || main?.ready) return "it is called ready";
  if (kind === "tries") return phase === "Succeeded" && code === "0" ? undefined : "it has not come to its success";
  if (begun(notes) > 1) return "its work was done twice";
  if (begun(notes) === 1 && kind === "initialized" && !notes.includes("second ended 0"))
    return "it began before it was initialized";
  const expected = code === "0" ? "Succeeded" : "Failed";
  if (phase !== expected) return `it should be ${expected}`;
  if (phase === "Succeeded" && kind === "initialized" && !pod.status?.initContainerStatuses?.every(hasSucceeded))
    return "its init containers are not shown as done";
  const told = String(main?.state?.terminated?.exitCode);
  return code !== undefined && told !== code ? `it should have ended with ${code}` : undefined;
}

const hasSucceeded = ({ state }: ContainerStatus) => state?.terminated?.exitCode === 0;

function summaryOf(pod: Pod | undefined): string {
  const words = ({ name, state, restartCount }: ContainerStatus) => `${name} #${restartCount} ${JSON.stringify(state)}`;
  return `${pod?.status?.phase ?? "gone"} ${(pod?.status?.containerStatuses ?? []).map(words).join(", ")}`;
}
