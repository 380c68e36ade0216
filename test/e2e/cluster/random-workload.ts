import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Container, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { ifAbsent } from "../../bed/if-absent.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../manifest.ts";
import { holdOpenCommand } from "../open-file-watch.ts";
import { barePod } from "./api-objects.ts";

/** A pod with a random lifecycle, for tests that kill what it depends on. */
export interface RandomPod {
  readonly name: string;
  readonly kind: Kind;
  readonly pod: ReturnType<typeof barePod>;
  /** True for a static pod. */
  readonly isStatic: boolean;
  /** A change of the pod while it runs. */
  readonly change: PodChange | undefined;
}

export interface PodChange {
  /** In milliseconds since the start of the test. */
  readonly atMs: number;
  readonly what:
    | "delete"
    | "force-delete"
    | "remove the manifest"
    | { readonly rewrite: RandomPod["pod"] }
    | ContainerAddition;
}

/** The addition of an ephemeral container. */
interface ContainerAddition {
  readonly ephemeralContainer: Container;
}

/** The notes that a pod's containers have written, in order: `main began`, `main ended 3`. */
export type Notes = readonly string[];

export interface RandomPodsOptions {
  readonly count: number;
  /** The number in the first pod's name; 0 by default. */
  readonly firstNumber?: number;
  readonly random: () => number;
  /** The containers write notes into a folder per pod below this one. */
  readonly folder: string;
  /** An image with busybox in a registry, for the pods that pull. */
  readonly remoteImage: string;
  /** The kinds in turn; by default each one. */
  readonly kinds?: readonly Kind[];
  /** The changes of the pods happen within this time; by default 30 seconds. */
  readonly changesWithinMs?: number;
  /** By when a pod with a deadline has started; by default 12 seconds, which hundreds of pods on a busy machine exceed. */
  readonly startsWithinSeconds?: number;
  /** Of the pods with a probe of exec; by default 1 second. Each probe costs the runtime some tenths of a processor's second. */
  readonly probePeriodSeconds?: number;
}

/** Returns random pods, about as many of each kind. */
export function createRandomPods({ count, random, folder, ...options }: RandomPodsOptions): readonly RandomPod[] {
  const { remoteImage, kinds = Object.keys(PODS) as Kind[], changesWithinMs = 30_000 } = options;
  const { startsWithinSeconds = 12, probePeriodSeconds = 1, firstNumber = 0 } = options;
  return Array.from({ length: count }, (_, at) => {
    const kind = kinds[at % kinds.length] ?? "once";
    const name = `${kind}-${firstNumber + at}`;
    const lasts = (random() * 12).toFixed(1);
    const code = random() < 0.5 ? 0 : 3;
    const atMs = random() * changesWithinMs;
    const places = { notes: join(folder, name), held: openFilesDir(folder) };
    const parameters = { lasts, code, remoteImage, startsWithinSeconds, probePeriodSeconds, ...places };
    const what = changeOf(kind, name, parameters);
    const isStatic = kind === "static" || kind === "removed" || kind === "changed";
    return {
      name,
      kind,
      isStatic,
      change: what && { atMs, what },
      pod: PODS[kind](containerBuilders(name, parameters), parameters),
    };
  });
}

function changeOf(kind: Kind, name: string, parameters: PodParameters): PodChange["what"] | undefined {
  switch (kind) {
    case "deleted":
      return "delete";
    case "forced":
      return "force-delete";
    case "removed":
      return "remove the manifest";
    case "changed":
      return {
        rewrite: containerBuilders(name, parameters).main("echo main changed >> /notes/all; sleep 1000000", {}),
      };
    case "debugged":
      return {
        ephemeralContainer: containerBuilders(name, parameters).extra(
          "debug",
          `sleep ${parameters.lasts}; ${ends("debug", parameters.code)}`,
        ),
      };
    default:
      return undefined;
  }
}

interface PodParameters {
  readonly lasts: string;
  readonly code: number;
  readonly remoteImage: string;
  readonly startsWithinSeconds: number;
  readonly probePeriodSeconds: number;
  readonly notes: string;
  readonly held: string;
}

/**
 * Makes the first instance of a container fail its liveness probe and the next ones pass, wherever an instance is
 * interrupted.
 */
const FAILS_PROBE_ONCE =
  "test ! -e /notes/dead || touch /notes/revived; if test -e /notes/revived; then rm -f /notes/dead; else touch /notes/dead; fi";

const ends = (container: string, exitCode: number) =>
  `echo ${container} ended ${exitCode} >> /notes/all; exit ${exitCode}`;

/** Builders for the pods of all kinds, whose containers write notes and keep a file open while they live. */
function containerBuilders(name: string, { notes, held }: Pick<PodParameters, "notes" | "held">) {
  const volumeMounts = [
    { name: "notes", mountPath: "/notes" },
    { name: "held", mountPath: "/held" },
  ];
  const noting = (container: string, text: string): Partial<Container> => ({
    volumeMounts,
    command: script(
      `${holdOpenCommand("/held", `${name} ${container}`)}; echo ${container} began >> /notes/all; ${text}`,
    ),
  });
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
  const main = (text: string, more: Partial<PodSpec>, own: Partial<Container> = {}) =>
    barePod(name, { ...noting("main", text), ...own }, { ...spec, ...more });
  return { main, extra };
}

type BuildPod = (
  builders: ReturnType<typeof containerBuilders>,
  parameters: PodParameters,
) => ReturnType<typeof barePod>;

const stays: BuildPod = ({ main }) => main("sleep 1000000", { restartPolicy: "Always" });

/** Builds a pod of each kind. */
const PODS = {
  once: ({ main }, { lasts, code }) => main(`sleep ${lasts}; ${ends("main", code)}`, { restartPolicy: "Never" }),
  retries: ({ main }) =>
    main(`sleep 1; test -e /notes/tried && { ${ends("main", 0)}; }; touch /notes/tried; ${ends("main", 4)}`, {
      restartPolicy: "OnFailure",
    }),
  stays,
  pulled: ({ main }, { remoteImage }) =>
    main("sleep 1000000", { restartPolicy: "Always" }, { image: remoteImage, imagePullPolicy: "Always" }),
  crashes: ({ main }, { lasts }) => main(`sleep ${lasts}; ${ends("main", 1)}`, { restartPolicy: "Always" }),
  initialized: ({ main, extra }, { code }) =>
    main(ends("main", code), {
      restartPolicy: "Never",
      initContainers: [extra("first", `sleep 1; ${ends("first", 0)}`), extra("second", ends("second", 0))],
    }),
  sidecar: ({ main, extra }, { lasts, code }) =>
    main(`sleep ${lasts}; ${ends("main", code)}`, {
      restartPolicy: "Never",
      initContainers: [extra("side", "sleep 1000000", { restartPolicy: "Always" })],
    }),
  // Ends only after its postStart hook has run.
  poststart: ({ main }, { code }) =>
    main(
      `until test -e /notes/hooked; do sleep 0.1; done; ${ends("main", code)}`,
      { restartPolicy: "Never" },
      { lifecycle: { postStart: { exec: { command: script("sleep 0.5; touch /notes/hooked") } } } },
    ),
  readiness: ({ main }, { lasts, probePeriodSeconds: periodSeconds }) =>
    main(
      `sleep ${lasts}; touch /notes/warm; sleep 1000000`,
      { restartPolicy: "Always" },
      { readinessProbe: { exec: { command: ["test", "-e", "/notes/warm"] }, periodSeconds, timeoutSeconds: 20 } },
    ),
  // Fails its probe until it was restarted, even if the agent dies before it acts on the probe's result.
  liveness: ({ main }, { probePeriodSeconds: periodSeconds }) =>
    main(
      `${FAILS_PROBE_ONCE}; sleep 1000000`,
      { restartPolicy: "Always" },
      {
        livenessProbe: {
          exec: { command: script("test ! -e /notes/dead") },
          periodSeconds,
          timeoutSeconds: 20,
          failureThreshold: 1,
        },
      },
    ),
  deleted: stays,
  forced: stays,
  // Ends by itself only after its preStop hook has run.
  prestop: ({ main }, { lasts, startsWithinSeconds }) =>
    main(
      `until test -e /notes/drained; do sleep 0.1; done; ${ends("main", 0)}`,
      {
        restartPolicy: "Never",
        activeDeadlineSeconds: startsWithinSeconds + Math.ceil(Number(lasts)),
        terminationGracePeriodSeconds: 10,
      },
      {
        lifecycle: {
          preStop: { exec: { command: script("echo main drained >> /notes/all; touch /notes/drained; sleep 5") } },
        },
      },
    ),
  restartall: ({ main, extra }, { lasts }) =>
    main(
      `test -e /notes/tried && { ${ends("main", 0)}; }; touch /notes/tried; sleep ${lasts}; ${ends("main", 88)}`,
      {
        restartPolicy: "Never",
        initContainers: [extra("first", ends("first", 0)), extra("side", "sleep 1000000", { restartPolicy: "Always" })],
      },
      {
        restartPolicy: "Never",
        restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [88] } }],
      },
    ),
  debugged: stays,
  static: stays,
  removed: stays,
  changed: stays,
} as const satisfies Readonly<Record<string, BuildPod>>;

export type Kind = keyof typeof PODS;

/** The folder in which each container instance keeps a file open. */
export const openFilesDir = (folder: string) => join(folder, "held");

/** The notes of a pod's containers so far. */
export async function readNotes(folder: string, name: string): Promise<Notes> {
  const text = await readFile(join(folder, name, "all"), "utf8").catch(ifAbsent(""));
  return text.split("\n").filter((line) => line !== "");
}
