import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Container, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../manifest.ts";
import { holding } from "../open-file-watch.ts";
import { barePod } from "./api-objects.ts";

/** A pod with a life of its own, and what it must have come to when everything around it has calmed down. */
export interface RandomLife {
  readonly name: string;
  readonly kind: Kind;
  readonly pod: ReturnType<typeof barePod>;
  /** It is a manifest on the node. */
  readonly isStatic: boolean;
  /** What is done to it in the midst of its life. */
  readonly later: Later | undefined;
}

export interface Later {
  /** In milliseconds from the beginning. */
  readonly atMs: number;
  readonly what:
    | "delete"
    | "delete by force"
    | "take the manifest away"
    | { readonly rewrite: RandomLife["pod"] }
    | Look;
}

/** An ephemeral container that is added. */
interface Look {
  readonly look: Container;
}

/** What its containers have noted of themselves, in order: `main began`, `main ended 3`. */
export type Notes = readonly string[];

/** `count` lives, of each kind about as many. What containers note goes to a folder per pod below `folder`. */
export function livesAtRandom(count: number, random: () => number, folder: string): readonly RandomLife[] {
  const kinds = Object.keys(PODS) as Kind[];
  return Array.from({ length: count }, (_, at) => {
    const kind = kinds[at % kinds.length] ?? "once";
    const name = `${kind}-${at}`;
    const lasts = (random() * 12).toFixed(1);
    const code = random() < 0.5 ? 0 : 3;
    const atMs = random() * 30_000;
    const lot = { lasts, code, notes: join(folder, name), held: heldFolder(folder) };
    const what = laterOf(kind, name, lot);
    const isStatic = kind === "static" || kind === "withdrawn" || kind === "rewritten";
    return { name, kind, isStatic, later: what && { atMs, what }, pod: PODS[kind](inItsWords(name, lot), lot) };
  });
}

function laterOf(kind: Kind, name: string, lot: Lot): Later["what"] | undefined {
  switch (kind) {
    case "deleted":
      return "delete";
    case "forced":
      return "delete by force";
    case "withdrawn":
      return "take the manifest away";
    case "rewritten":
      return { rewrite: inItsWords(name, lot).main("echo main changed >> /notes/all; sleep 1000000", {}) };
    case "looked":
      return { look: inItsWords(name, lot).extra("look", `sleep ${lot.lasts}; ${ends("look", lot.code)}`) };
    default:
      return undefined;
  }
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

const ends = (container: string, exitCode: number) =>
  `echo ${container} ended ${exitCode} >> /notes/all; exit ${exitCode}`;

/** What the pods of all kinds are made of: containers that note what they do, and hold a file while they live. */
function inItsWords(name: string, { notes, held }: Pick<Lot, "notes" | "held">) {
  const volumeMounts = [
    { name: "notes", mountPath: "/notes" },
    { name: "held", mountPath: "/held" },
  ];
  const noting = (container: string, text: string): Partial<Container> => ({
    volumeMounts,
    command: script(`${holding("/held", `${name} ${container}`)}; echo ${container} began >> /notes/all; ${text}`),
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

type Make = (words: ReturnType<typeof inItsWords>, lot: Lot) => ReturnType<typeof barePod>;

const stays: Make = ({ main }) => main("sleep 1000000", { restartPolicy: "Always" });

/** How a pod of each kind is made. */
const PODS = {
  once: ({ main }, { lasts, code }) => main(`sleep ${lasts}; ${ends("main", code)}`, { restartPolicy: "Never" }),
  tries: ({ main }) =>
    main(`sleep 1; test -e /notes/tried && { ${ends("main", 0)}; }; touch /notes/tried; ${ends("main", 4)}`, {
      restartPolicy: "OnFailure",
    }),
  stays,
  crashes: ({ main }, { lasts }) => main(`sleep ${lasts}; ${ends("main", 1)}`, { restartPolicy: "Always" }),
  initialized: ({ main, extra }, { code }) =>
    main(ends("main", code), {
      restartPolicy: "Never",
      initContainers: [extra("first", `sleep 1; ${ends("first", 0)}`), extra("second", ends("second", 0))],
    }),
  served: ({ main, extra }, { lasts, code }) =>
    main(`sleep ${lasts}; ${ends("main", code)}`, {
      restartPolicy: "Never",
      initContainers: [extra("side", "sleep 1000000", { restartPolicy: "Always" })],
    }),
  // Without its hook it would never end.
  hooked: ({ main }, { code }) =>
    main(
      `until test -e /notes/hooked; do sleep 0.1; done; ${ends("main", code)}`,
      { restartPolicy: "Never" },
      { lifecycle: { postStart: { exec: { command: script("sleep 0.5; touch /notes/hooked") } } } },
    ),
  warms: ({ main }, { lasts }) =>
    main(
      `sleep ${lasts}; touch /notes/warm; sleep 1000000`,
      { restartPolicy: "Always" },
      { readinessProbe: { exec: { command: ["test", "-e", "/notes/warm"] }, periodSeconds: 1, timeoutSeconds: 20 } },
    ),
  // Dead until it was restarted, however often nobody hears what its probe has found.
  restarts: ({ main }) =>
    main(
      `${DEAD_AT_FIRST}; sleep 1000000`,
      { restartPolicy: "Always" },
      {
        livenessProbe: {
          exec: { command: script("test ! -e /notes/dead") },
          periodSeconds: 1,
          timeoutSeconds: 20,
          failureThreshold: 1,
        },
      },
    ),
  deleted: stays,
  forced: stays,
  // Its hook is what lets it end by itself.
  drained: ({ main }, { lasts }) =>
    main(
      `until test -e /notes/drained; do sleep 0.1; done; ${ends("main", 0)}`,
      {
        restartPolicy: "Never",
        activeDeadlineSeconds: 12 + Math.ceil(Number(lasts)),
        terminationGracePeriodSeconds: 10,
      },
      {
        lifecycle: {
          preStop: { exec: { command: script("echo main drained >> /notes/all; touch /notes/drained; sleep 5") } },
        },
      },
    ),
  renewed: ({ main, extra }, { lasts }) =>
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
  looked: stays,
  static: stays,
  withdrawn: stays,
  rewritten: stays,
} as const satisfies Readonly<Record<string, Make>>;

export type Kind = keyof typeof PODS;

/** Where the containers of all lives hold a file each. */
export const heldFolder = (folder: string) => join(folder, "held");

/** What a life has noted so far. */
export async function notesOf(folder: string, name: string): Promise<Notes> {
  const text = await readFile(join(folder, name, "all"), "utf8").catch(() => "");
  return text.split("\n").filter((line) => line !== "");
}
