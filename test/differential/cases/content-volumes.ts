import type { Container, KeyToPath, PodSpec, Volume, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../../e2e/manifest.ts";
import { type ViewPart, viewScript } from "../container-view.ts";
import { configMap, secret } from "./objects-of-volumes.ts";
import { hasRepeatedEvent, isReady, isThereAndHasEnded, type PodCase, viewCase } from "./pod-case.ts";
import { resources } from "./resources.ts";

export type VolumesByName = Readonly<Record<string, Omit<Volume, "name">>>;
type MountsByName = Readonly<Record<string, Partial<VolumeMount>>>;

export const volumesOf = (volumes: VolumesByName): PodSpec["volumes"] =>
  Object.entries(volumes).map(([name, source]) => ({ name, ...source }));
/** Each volume at `/v/NAME`; `how` overrides fields of a mount. */
export const mountsOf = (volumes: VolumesByName, how: MountsByName = {}): Container["volumeMounts"] =>
  Object.keys(volumes).map((name) => ({ name, mountPath: `/v/${name}`, ...how[name] }));

interface Others {
  readonly container?: Partial<Container>;
  readonly spec?: Partial<PodSpec>;
  readonly how?: MountsByName;
}

/** A pod that shows what its container sees of these volumes. */
export function volumeCase(
  name: string,
  parts: readonly ViewPart[],
  volumes: VolumesByName,
  { container, spec, how }: Others = {},
): PodCase {
  return viewCase(
    name,
    parts,
    { volumeMounts: mountsOf(volumes, how) ?? [], ...container },
    { volumes: volumesOf(volumes) ?? [], ...spec },
  );
}

/** A pod that waits, because a volume of it cannot be set up. */
export const noVolumeCase = (name: string, volumes: VolumesByName, others: Others = {}): PodCase => ({
  ...volumeCase(`no-volume-${name}`, [], volumes, others),
  until: hasRepeatedEvent("FailedMount"),
});

const item = (key: string, path = key, mode?: number): KeyToPath =>
  mode === undefined ? { key, path } : { key, path, mode };
const field = (path: string, fieldPath: string, mode?: number) => ({
  path,
  fieldRef: { fieldPath },
  ...(mode !== undefined && { mode }),
});
const amount = (path: string, resource: string, divisor?: string, containerName = "main") => ({
  path,
  resourceFieldRef: { containerName, resource, ...(divisor !== undefined && { divisor }) },
});
const tokenSource = (path = "token", more: { audience?: string; expirationSeconds?: number } = {}) => ({
  serviceAccountToken: { path, ...more },
});

const objectCases: readonly PodCase[] = [
  volumeCase("config-map-volume", ["files", "texts", "mountinfo", "writes"], {
    all: { configMap: { name: "settings" } },
  }),
  volumeCase("config-map-volume-modes", ["files", "texts"], {
    strict: { configMap: { name: "settings", defaultMode: 0o400, items: [item("plain")] } },
    items: { configMap: { name: "settings", defaultMode: 0o640, items: [item("plain", "p", 0o755), item("empty")] } },
    none: { configMap: { name: "overlap", defaultMode: 0 } },
  }),
  volumeCase("config-map-volume-folders", ["files", "texts"], {
    deep: {
      configMap: {
        name: "settings",
        items: [item("plain", "one/two/three"), item("app.conf", "one/app"), item("empty", "zero", 0o777)],
      },
    },
  }),
  volumeCase("config-map-volume-paths", ["files", "texts"], {
    odd: { configMap: { name: "settings", items: [item("plain", "a//b/./c"), item("empty", "./d")] } },
    same: { configMap: { name: "settings", items: [item("plain", "again"), item("plain", "twice")] } },
  }),
  volumeCase("config-map-volume-optional", ["files", "texts", "mountinfo"], {
    none: { configMap: { name: "none", optional: true } },
    key: { configMap: { name: "settings", optional: true, items: [item("none"), item("plain")] } },
    there: { configMap: { name: "overlap", optional: true } },
  }),
  volumeCase("config-map-volume-immutable", ["files", "texts"], {
    fixed: { configMap: { name: "fixed" } },
    nothing: { configMap: { name: "nothing" } },
  }),
  volumeCase("config-map-volume-large", ["texts", "mountinfo"], { large: { configMap: { name: "large" } } }),
  volumeCase("secret-volume", ["files", "texts", "mountinfo", "writes"], { all: { secret: { secretName: "keys" } } }),
  volumeCase("secret-volume-modes", ["files", "texts"], {
    strict: { secret: { secretName: "keys", defaultMode: 0o400, items: [item("plain")] } },
    items: { secret: { secretName: "keys", defaultMode: 0o640, items: [item("plain", "p", 0o755), item("tls.key")] } },
    deep: {
      secret: { secretName: "keys", defaultMode: 0o444, items: [item("plain", "a/b"), item("tls.key", "a/c/d")] },
    },
  }),
  volumeCase("secret-volume-optional", ["files", "texts", "mountinfo"], {
    none: { secret: { secretName: "none", optional: true } },
    key: { secret: { secretName: "keys", optional: true, items: [item("none"), item("plain")] } },
  }),
  volumeCase("secret-volume-large", ["texts", "mountinfo"], { large: { secret: { secretName: "large" } } }),
  volumeCase(
    "secret-volume-of-others",
    ["id", "files", "texts", "writes"],
    {
      strict: { secret: { secretName: "keys", defaultMode: 0o400, items: [item("plain")] } },
      open: { secret: { secretName: "keys", items: [item("plain")] } },
    },
    { container: { securityContext: { runAsUser: 1234, runAsGroup: 2345 } } },
  ),
  noVolumeCase("config-map", { v: { configMap: { name: "none" } } }),
  noVolumeCase("secret", { v: { secret: { secretName: "none" } } }),
  noVolumeCase("config-map-key", { v: { configMap: { name: "settings", items: [item("plain"), item("none")] } } }),
  noVolumeCase("secret-key", { v: { secret: { secretName: "keys", items: [item("none")] } } }),
  noVolumeCase("of-two", { first: { configMap: { name: "none" } }, second: { secret: { secretName: "none" } } }),
  noVolumeCase(
    "for-init-container",
    { v: { configMap: { name: "none" } } },
    {
      container: { volumeMounts: [] },
      spec: {
        initContainers: [
          { name: "first", image: busyboxImage, command: ["true"], volumeMounts: [{ name: "v", mountPath: "/v" }] },
        ],
      },
    },
  ),
  volumeCase(
    "volume-that-no-container-mounts",
    ["files"],
    { used: { emptyDir: {} }, unused: { configMap: { name: "none" } } },
    { container: { volumeMounts: [{ name: "used", mountPath: "/v/used" }] } },
  ),
];

const downwardCases: readonly PodCase[] = [
  volumeCase("downward-volume", ["files", "texts", "mountinfo", "writes"], {
    all: {
      downwardAPI: {
        items: [
          ...["name", "namespace", "uid"].map((each) => field(each, `metadata.${each}`)),
          field("labels", "metadata.labels"),
          field("of/one/label", "metadata.labels['app']"),
          field("of/none", "metadata.annotations['none']"),
        ],
      },
    },
  }),
  {
    ...volumeCase("downward-volume-of-odd-texts", ["texts"], {
      all: {
        downwardAPI: {
          items: [
            field("labels", "metadata.labels"),
            field("annotations", "metadata.annotations"),
            field("one", "metadata.annotations['berth.test/lines']"),
          ],
        },
      },
    }),
    labels: { "berth.test/label": "a_b-c.D", empty: "" },
    annotations: {
      "berth.test/lines": 'one\n"two"\ttab\\',
      "berth.test/letters": "ä€\u{1f600}\u007f\u0001\u200b",
      "a.test/first": "",
    },
  },
  volumeCase(
    "downward-volume-of-resources",
    ["texts"],
    {
      all: {
        downwardAPI: {
          items: [
            amount("cpu", "limits.cpu"),
            amount("cpu-1m", "limits.cpu", "1m"),
            amount("memory", "limits.memory"),
            amount("memory-mi", "limits.memory", "1Mi"),
            amount("request-cpu-1m", "requests.cpu", "1m"),
            amount("request-memory-k", "requests.memory", "1k"),
          ],
        },
      },
    },
    { container: { resources } },
  ),
  volumeCase("downward-volume-without-limits", ["texts"], {
    all: {
      downwardAPI: {
        items: [
          amount("cpu", "limits.cpu"),
          amount("memory", "limits.memory"),
          amount("memory-mi", "limits.memory", "1Mi"),
          amount("request-cpu", "requests.cpu", "1m"),
          amount("request-memory", "requests.memory"),
        ],
      },
    },
  }),
  volumeCase("downward-volume-modes", ["files"], {
    strict: {
      downwardAPI: { defaultMode: 0o400, items: [field("a/name", "metadata.name"), field("uid", "metadata.uid")] },
    },
    items: { downwardAPI: { items: [field("name", "metadata.name", 0o755), field("uid", "metadata.uid")] } },
  }),
  noVolumeCase("downward-container", { v: { downwardAPI: { items: [amount("cpu", "limits.cpu", "1", "none")] } } }),
];

const projections = [
  { configMap: { name: "settings", items: [item("plain", "map/plain")] } },
  { secret: { name: "keys", items: [item("plain", "secret/plain", 0o400)] } },
  { downwardAPI: { items: [field("name", "metadata.name"), amount("cpu", "limits.cpu", "1m")] } },
  tokenSource(),
];

const projectedCases: readonly PodCase[] = [
  volumeCase("projected-volume", ["files", "texts", "mountinfo", "writes"], {
    all: { projected: { sources: projections } },
  }),
  volumeCase("projected-volume-modes", ["files"], { all: { projected: { defaultMode: 0o440, sources: projections } } }),
  volumeCase("projected-volume-overlap", ["files", "texts"], {
    forth: { projected: { sources: [{ configMap: { name: "settings" } }, { configMap: { name: "overlap" } }] } },
    back: { projected: { sources: [{ configMap: { name: "overlap" } }, { secret: { name: "keys" } }] } },
  }),
  volumeCase("projected-volume-optional", ["files", "texts"], {
    all: {
      projected: {
        sources: [
          { configMap: { name: "none", optional: true } },
          { secret: { name: "keys", optional: true, items: [item("none"), item("plain")] } },
        ],
      },
    },
    empty: { projected: { sources: [] } },
  }),
  noVolumeCase("projected", {
    v: { projected: { sources: [{ configMap: { name: "none" } }, { secret: { name: "keys" } }] } },
  }),
  noVolumeCase("projected-twice", {
    v: {
      projected: {
        sources: [
          { configMap: { name: "none" } },
          { secret: { name: "none" } },
          { configMap: { name: "settings", items: [item("none")] } },
        ],
      },
    },
  }),
];

const withToken: Partial<PodSpec> = { automountServiceAccountToken: true };
const user = (runAsUser: number) => ({ securityContext: { runAsUser } });
const ownToken = (): VolumesByName => ({ own: { projected: { sources: [tokenSource()] } } });

const tokenCases: readonly PodCase[] = [
  viewCase("token", ["files", "texts", "tokens", "mountinfo"], {}, withToken),
  viewCase("token-of-a-user", ["id", "files", "tokens"], user(1234), withToken),
  viewCase(
    "token-of-a-group",
    ["files", "tokens", "mountinfo"],
    {},
    { ...withToken, securityContext: { fsGroup: 2345 } },
  ),
  viewCase(
    "token-of-a-user-and-a-group",
    ["files", "tokens"],
    {},
    { ...withToken, securityContext: { runAsUser: 1234, fsGroup: 2345 } },
  ),
  volumeCase("token-of-two-users", ["files", "tokens"], ownToken(), {
    spec: {
      containers: [1234, 2345].map((id) => ({
        name: `of-${id}`,
        image: busyboxImage,
        command: ["sh", "-c", viewScript("files", "tokens")],
        volumeMounts: mountsOf(ownToken()) ?? [],
        ...user(id),
      })),
    },
  }),
  volumeCase("token-with-audiences", ["files", "tokens"], {
    vault: { projected: { sources: [tokenSource("token", { audience: "vault", expirationSeconds: 600 })] } },
    two: {
      projected: {
        defaultMode: 0o400,
        sources: [tokenSource("a/token", { expirationSeconds: 7200 }), tokenSource("token-b", { audience: "b" })],
      },
    },
  }),
];

/**
 * A shell condition: the file below the volume at `/v/NAME` holds `later`, and the update is complete. The last step of
 * an update removes the folder of the files before.
 */
export const updateCondition = (volume: string, file: string): string =>
  `grep -q later /v/${volume}/${file} 2>/dev/null && [ "$(ls -d /v/${volume}/..2* | wc -l)" = 1 ]`;

/** A pod that shows the files of its volume `v` once the file of this path in it holds `later`. */
function updateCase(
  name: string,
  file: string,
  volumes: VolumesByName,
  change: Omit<Partial<PodCase>, "afterwards"> & {
    readonly afterwards: Omit<NonNullable<PodCase["afterwards"]>, "until">;
  },
): PodCase {
  const text = `until ${updateCondition("v", file)}; do sleep 0.3; done; ${viewScript("files", "texts", "mountinfo")}`;
  const { afterwards, ...rest } = change;
  return {
    ...volumeCase(name, ["files", "texts", "mountinfo"], volumes, { container: { command: script(text) } }),
    ...rest,
    until: isReady,
    afterwards: { ...afterwards, until: isThereAndHasEnded },
  };
}

const updateCases: readonly PodCase[] = [
  updateCase(
    "config-map-volume-changes",
    "plain",
    { v: { configMap: { name: "changing" } } },
    {
      objects: [configMap("changing", { plain: "sooner", gone: "sooner", same: "same" })],
      afterwards: {
        kind: "apply objects",
        objects: [configMap("changing", { plain: "later", added: "later", same: "same" })],
      },
    },
  ),
  updateCase(
    "projected-volume-changes",
    "deep/plain",
    { v: { projected: { sources: [{ secret: { name: "changing", items: [item("plain", "deep/plain", 0o400)] } }] } } },
    {
      objects: [secret("changing", { plain: "sooner" })],
      afterwards: { kind: "apply objects", objects: [secret("changing", { plain: "later" })] },
    },
  ),
  updateCase(
    "config-map-volume-appears",
    "plain",
    { v: { configMap: { name: "appearing", optional: true } } },
    {
      afterwards: { kind: "apply objects", objects: [configMap("appearing", { plain: "later" })] },
    },
  ),
  updateCase(
    "downward-volume-changes",
    "annotations",
    { v: { downwardAPI: { items: [field("annotations", "metadata.annotations")] } } },
    { annotations: { note: "sooner" }, afterwards: { kind: "annotate", annotation: "added=later" } },
  ),
  {
    ...noVolumeCase("secret-until-it-appears", { v: { secret: { secretName: "awaited" } } }),
    container: {
      command: ["sh", "-c", viewScript("files", "texts")],
      volumeMounts: [{ name: "v", mountPath: "/v/v" }],
    },
    viewParts: ["files", "texts"],
    afterwards: {
      kind: "apply objects",
      objects: [secret("awaited", { plain: "later" })],
      until: isThereAndHasEnded,
    },
  },
];

/** Volumes whose files show objects, the pod itself, or tokens. Those that wait for an update are first. */
export const contentVolumeCases: readonly PodCase[] = [
  ...updateCases,
  ...objectCases,
  ...downwardCases,
  ...projectedCases,
  ...tokenCases,
];
