import { expect, test } from "bun:test";
import {
  NamespaceMode,
  SecurityProfile_ProfileType as ProfileType,
  SupplementalGroupsPolicy,
} from "../../../proto/cri/gen/api.ts";
import type { ImageUser } from "../../../proto/cri/image-user.ts";
import type { Container, Pod, PodSpec, SecurityContext } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { TranslateError } from "../translate-error.ts";
import { containerSecurityContext, sandboxSecurityContext } from "./security-context.ts";

type PodSecurity = NonNullable<PodSpec["securityContext"]>;

interface Scene {
  readonly own?: SecurityContext;
  readonly ofPod?: PodSecurity;
  readonly image?: ImageUser;
  readonly spec?: Partial<PodSpec>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly seccompDefault?: boolean;
}

const root: ImageUser = { uid: undefined, username: "" };
const named: ImageUser = { uid: undefined, username: "web" };
const numbered: ImageUser = { uid: 1001, username: "" };

const ANNOTATION = "container.apparmor.security.beta.kubernetes.io/";

function contextOf({ own, ofPod, image = root, spec, annotations, seccompDefault = false }: Scene) {
  const container: Container = { name: "a", ...(own === undefined ? {} : { securityContext: own }) };
  const pod: Pod = {
    metadata: { name: "web", namespace: "shop", uid: "u", ...(annotations === undefined ? {} : { annotations }) },
    spec: { containers: [container], ...(ofPod === undefined ? {} : { securityContext: ofPod }), ...spec },
  };
  const context = containerSecurityContext(pod, container, image, { ...nodeFacts, seccompDefault });
  return { context, sandbox: sandboxSecurityContext(pod) };
}

const users: readonly [
  sentence: string,
  scene: Scene,
  user: bigint | undefined,
  name: string,
  group: bigint | undefined,
][] = [
  ["an image that names nobody runs as root, which is said", {}, 0n, "", undefined],
  ["a group alone goes with root, since runtimes refuse it without a user", { own: { runAsGroup: 5 } }, 0n, "", 5n],
  ["the image's number", { image: numbered }, 1001n, "", undefined],
  ["the image's name, which the runtime looks up", { image: named }, undefined, "web", undefined],
  ["the pod's user goes before the image's", { ofPod: { runAsUser: 7 }, image: named }, 7n, "", undefined],
  ["the container's user goes before the pod's", { own: { runAsUser: 8 }, ofPod: { runAsUser: 7 } }, 8n, "", undefined],
  [
    "root by the container's word goes before the pod's user",
    { own: { runAsUser: 0 }, ofPod: { runAsUser: 7 } },
    0n,
    "",
    undefined,
  ],
  ["the pod's group", { ofPod: { runAsUser: 7, runAsGroup: 70 } }, 7n, "", 70n],
  [
    "the container's group goes before the pod's",
    { own: { runAsGroup: 80 }, ofPod: { runAsGroup: 70 }, image: numbered },
    1001n,
    "",
    80n,
  ],
];
for (const [sentence, scene, user, name, group] of users)
  test(`user: ${sentence}`, () => {
    const { runAsUser, runAsUsername, runAsGroup } = contextOf(scene).context;
    expect([runAsUser?.value, runAsUsername, runAsGroup?.value]).toEqual([user, name, group]);
  });

test("the sandbox runs as the pod says, whatever its containers and images say", () => {
  const { sandbox } = contextOf({ own: { runAsUser: 8 }, ofPod: { runAsUser: 7, runAsGroup: 70 }, image: numbered });
  expect([sandbox.runAsUser?.value, sandbox.runAsGroup?.value]).toEqual([7n, 70n]);
  expect(contextOf({ own: { runAsUser: 8 }, image: numbered }).sandbox.runAsUser).toBeUndefined();
});

test("supplemental groups and their policy are the pod's, for sandbox and container", () => {
  const { context, sandbox } = contextOf({ ofPod: { supplementalGroups: [5, 6], supplementalGroupsPolicy: "Strict" } });
  for (const { supplementalGroups, supplementalGroupsPolicy } of [context, sandbox]) {
    expect(supplementalGroups).toEqual([5n, 6n]);
    expect(supplementalGroupsPolicy).toBe(SupplementalGroupsPolicy.Strict);
  }
  const withVolumes = contextOf({ ofPod: { fsGroup: 2000, supplementalGroups: [5] } });
  for (const { supplementalGroups } of [withVolumes.context, withVolumes.sandbox])
    expect(supplementalGroups).toEqual([2000n, 5n]);
  expect(contextOf({}).context.supplementalGroupsPolicy).toBe(SupplementalGroupsPolicy.Merge);
});

const whose = '(pod: "web_shop(u)", container: a)';
const breaks = `container's runAsUser breaks non-root policy ${whose}`;
const willBeRoot = `container has runAsNonRoot and image will run as root ${whose}`;
const cannotVerify = `container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root ${whose}`;
const nonRoot: readonly [sentence: string, scene: Scene, message: string | undefined][] = [
  ["nobody asks: root is fine", {}, undefined],
  ["the pod asks and the image names nobody", { ofPod: { runAsNonRoot: true } }, willBeRoot],
  [
    "the container asks and the image is root by number",
    { own: { runAsNonRoot: true }, image: { uid: 0, username: "" } },
    willBeRoot,
  ],
  ["the image has another number", { own: { runAsNonRoot: true }, image: numbered }, undefined],
  ["the image has a name, which proves nothing", { own: { runAsNonRoot: true }, image: named }, cannotVerify],
  ["the image has a number and a name", { own: { runAsNonRoot: true }, image: { uid: 5, username: "web" } }, undefined],
  ["the container says root itself", { own: { runAsNonRoot: true, runAsUser: 0 }, image: numbered }, breaks],
  ["the pod says root", { ofPod: { runAsNonRoot: true, runAsUser: 0 } }, breaks],
  [
    "the container says a user, whatever the image says",
    { own: { runAsUser: 7 }, ofPod: { runAsNonRoot: true } },
    undefined,
  ],
  [
    "the container takes back what the pod asks",
    { own: { runAsNonRoot: false }, ofPod: { runAsNonRoot: true } },
    undefined,
  ],
];
for (const [sentence, scene, message] of nonRoot)
  test(`runAsNonRoot: ${sentence}`, () => {
    const translate = () => contextOf(scene);
    if (message === undefined) expect(translate).not.toThrow();
    else {
      expect(translate).toThrow(TranslateError);
      expect(translate).toThrow(expect.objectContaining({ reason: "CreateContainerConfigError", message }));
    }
  });

test("what tells about the host is masked, and what changes it cannot be written", () => {
  const { maskedPaths, readonlyPaths } = contextOf({}).context;
  expect(maskedPaths).toEqual([
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
    ...nodeFacts.thermalThrottlePaths,
  ]);
  expect(readonlyPaths).toEqual(["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]);
});

for (const [sentence, own] of [
  ["procMount: Unmasked", { procMount: "Unmasked" }],
  ["a privileged container", { privileged: true }],
] as const)
  test(`nothing is masked for ${sentence}`, () => {
    const { maskedPaths, readonlyPaths } = contextOf({ own }).context;
    expect([...maskedPaths, ...readonlyPaths]).toEqual([]);
  });

test("a privileged container makes its sandbox privileged, another one does not", () => {
  expect(contextOf({ own: { privileged: true } })).toMatchObject({
    context: { privileged: true },
    sandbox: { privileged: true },
  });
  expect(contextOf({})).toMatchObject({ context: { privileged: false }, sandbox: { privileged: false } });
});

test("so does a privileged container of another kind: runtimes have none in a sandbox that is not", () => {
  const privileged = [{ name: "other", securityContext: { privileged: true } }];
  for (const list of ["initContainers", "ephemeralContainers"])
    expect(contextOf({ spec: { [list]: privileged } })).toMatchObject({
      context: { privileged: false },
      sandbox: { privileged: true },
    });
});

const flags: readonly [sentence: string, own: SecurityContext, expected: object][] = [
  ["new privileges may be gained unless that is forbidden", {}, { noNewPrivs: false }],
  ["allowPrivilegeEscalation: false forbids it", { allowPrivilegeEscalation: false }, { noNewPrivs: true }],
  ["allowPrivilegeEscalation: true does not", { allowPrivilegeEscalation: true }, { noNewPrivs: false }],
  ["the root file system may be written", {}, { readonlyRootfs: false }],
  ["readOnlyRootFilesystem forbids it", { readOnlyRootFilesystem: true }, { readonlyRootfs: true }],
  [
    "capabilities are added and dropped by name",
    { capabilities: { add: ["NET_ADMIN"], drop: ["ALL"] } },
    { capabilities: { addCapabilities: ["NET_ADMIN"], dropCapabilities: ["ALL"] } },
  ],
];
for (const [sentence, own, expected] of flags)
  test(sentence, () => {
    expect(contextOf({ own }).context).toMatchObject(expected);
  });

const { RuntimeDefault, Unconfined, Localhost } = ProfileType;
const localhost = (localhostProfile: string): SecurityContext => ({
  seccompProfile: { type: "Localhost", localhostProfile },
});
const seccomp: readonly [sentence: string, scene: Scene, type: ProfileType, ref: string][] = [
  ["none is Unconfined", {}, Unconfined, ""],
  ["none is RuntimeDefault where the node says so", { seccompDefault: true }, RuntimeDefault, ""],
  [
    "Unconfined stands against the node's default",
    { own: { seccompProfile: { type: "Unconfined" } }, seccompDefault: true },
    Unconfined,
    "",
  ],
  ["the pod's", { ofPod: { seccompProfile: { type: "RuntimeDefault" } } }, RuntimeDefault, ""],
  [
    "the container's goes before the pod's",
    { own: { seccompProfile: { type: "Unconfined" } }, ofPod: { seccompProfile: { type: "RuntimeDefault" } } },
    Unconfined,
    "",
  ],
  [
    "a file below the node's seccomp folder",
    { own: localhost("web/strict.json") },
    Localhost,
    "/root-dir/seccomp/web/strict.json",
  ],
  [
    "a file whose name merely begins with dots",
    { own: localhost("..strict") },
    Localhost,
    "/root-dir/seccomp/..strict",
  ],
];
for (const [sentence, scene, profileType, localhostRef] of seccomp)
  test(`seccomp: ${sentence}`, () => {
    expect(contextOf(scene).context.seccomp).toEqual({ profileType, localhostRef });
  });

test("the sandbox's own process always has the runtime's seccomp profile", () => {
  const { sandbox } = contextOf({ ofPod: { seccompProfile: { type: "Unconfined" } } });
  expect(sandbox.seccomp).toEqual({ profileType: RuntimeDefault, localhostRef: "" });
});

for (const file of ["/etc/passwd", "..", "../x", "a/../../x", "a/.."])
  test(`the localhost seccomp profile ${JSON.stringify(file)} is refused`, () => {
    expect(() => contextOf({ own: localhost(file) })).toThrow(
      expect.objectContaining({
        reason: "CreateContainerConfigError",
        message: expect.stringContaining(JSON.stringify(file)),
      }),
    );
  });

const nameless: readonly [what: string, own: SecurityContext, message: string][] = [
  ["a seccomp file", localhost(""), "localhostProfile must be set if seccompProfile type is Localhost."],
  [
    "an AppArmor profile",
    { appArmorProfile: { type: "Localhost", localhostProfile: " " } },
    "localhostProfile must be set if appArmorProfile type is Localhost",
  ],
  [
    "an AppArmor profile",
    { appArmorProfile: { type: "Localhost" } },
    "localhostProfile must be set if appArmorProfile",
  ],
];
for (const [what, own, message] of nameless)
  test(`${what} without a name is an error, never Unconfined`, () => {
    expect(() => contextOf({ own })).toThrow(
      expect.objectContaining({ reason: "CreateContainerConfigError", message: expect.stringContaining(message) }),
    );
  });

test("a policy for groups that a newer API may have fails the sandbox", () => {
  const ofPod = Object.assign({}, { supplementalGroupsPolicy: "Sometimes" }) as NonNullable<Scene["ofPod"]>;
  expect(() => contextOf({ ofPod })).toThrow(
    expect.objectContaining({
      reason: "CreatePodSandboxError",
      message: "unsupported supplementalGroupsPolicy: Sometimes",
    }),
  );
});

const annotated = (text: string): Partial<Scene> => ({ annotations: { [`${ANNOTATION}a`]: text } });
const apparmor: readonly [sentence: string, scene: Scene, profile: object | undefined, text: string][] = [
  ["none is the runtime's affair", {}, undefined, ""],
  [
    "RuntimeDefault",
    { own: { appArmorProfile: { type: "RuntimeDefault" } } },
    { profileType: RuntimeDefault, localhostRef: "" },
    "runtime/default",
  ],
  [
    "Unconfined",
    { own: { appArmorProfile: { type: "Unconfined" } } },
    { profileType: Unconfined, localhostRef: "" },
    "unconfined",
  ],
  [
    "the pod's loaded profile, by name",
    { ofPod: { appArmorProfile: { type: "Localhost", localhostProfile: "strict" } } },
    { profileType: Localhost, localhostRef: "strict" },
    "localhost/strict",
  ],
  [
    "an annotation of the container, which goes before the pod's field",
    { ...annotated("localhost/old"), ofPod: { appArmorProfile: { type: "Unconfined" } } },
    { profileType: Localhost, localhostRef: "old" },
    "localhost/old",
  ],
  [
    "an annotation of the container, behind its own field",
    { ...annotated("unconfined"), own: { appArmorProfile: { type: "RuntimeDefault" } } },
    { profileType: RuntimeDefault, localhostRef: "" },
    "runtime/default",
  ],
  [
    "an annotation that asks for the runtime's",
    annotated("runtime/default"),
    { profileType: RuntimeDefault, localhostRef: "" },
    "runtime/default",
  ],
  ["an annotation that means nothing", annotated("strict"), undefined, ""],
  ["an annotation of another container", { annotations: { [`${ANNOTATION}b`]: "unconfined" } }, undefined, ""],
];
for (const [sentence, scene, profile, text] of apparmor)
  test(`AppArmor: ${sentence}`, () => {
    const { apparmor: found, apparmorProfile } = contextOf(scene).context;
    expect([found, apparmorProfile]).toEqual([profile as never, text]);
  });

test("SELinux options of the container go before the pod's, and what is not said is empty", () => {
  const ofPod = { seLinuxOptions: { level: "s0", user: "u" } };
  expect(contextOf({ ofPod }).context.selinuxOptions).toEqual({ user: "u", role: "", type: "", level: "s0" });
  const { context, sandbox } = contextOf({ ofPod, own: { seLinuxOptions: { level: "s1" } } });
  expect(context.selinuxOptions).toMatchObject({ level: "s1", user: "" });
  expect(sandbox.selinuxOptions).toMatchObject({ level: "s0", user: "u" });
  expect(contextOf({}).context.selinuxOptions).toBeUndefined();
});

const { POD, CONTAINER, NODE } = NamespaceMode;
const namespaces: readonly [sentence: string, spec: Partial<PodSpec>, network: number, ipc: number, pid: number][] = [
  ["a pod has a network and IPC of its own, and each container its processes", {}, POD, POD, CONTAINER],
  ["shareProcessNamespace shares processes in the pod", { shareProcessNamespace: true }, POD, POD, POD],
  ["hostNetwork is the node's network", { hostNetwork: true }, NODE, POD, CONTAINER],
  ["hostIPC is the node's IPC", { hostIPC: true }, POD, NODE, CONTAINER],
  ["hostPID is the node's processes, shared or not", { hostPID: true, shareProcessNamespace: true }, POD, POD, NODE],
];
for (const [sentence, spec, network, ipc, pid] of namespaces)
  test(`namespaces: ${sentence}`, () => {
    const { context, sandbox } = contextOf({ spec });
    for (const { namespaceOptions } of [context, sandbox])
      expect(namespaceOptions).toMatchObject({ network, ipc, pid });
  });
