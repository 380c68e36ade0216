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

interface SecurityCase {
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

function contextOf({ own, ofPod, image = root, spec, annotations, seccompDefault = false }: SecurityCase) {
  const container: Container = { name: "a", ...(own === undefined ? {} : { securityContext: own }) };
  const pod: Pod = {
    metadata: { name: "web", namespace: "shop", uid: "u", ...(annotations === undefined ? {} : { annotations }) },
    spec: { containers: [container], ...(ofPod === undefined ? {} : { securityContext: ofPod }), ...spec },
  };
  const context = containerSecurityContext(pod, container, image, { ...nodeFacts, seccompDefault });
  return { context, sandbox: sandboxSecurityContext(pod, nodeFacts) };
}

const users: readonly [
  sentence: string,
  fixture: SecurityCase,
  user: bigint | undefined,
  name: string,
  group: bigint | undefined,
][] = [
  ["an image without USER runs as uid 0, set explicitly", {}, 0n, "", undefined],
  ["a group without a user adds uid 0, since runtimes reject it otherwise", { own: { runAsGroup: 5 } }, 0n, "", 5n],
  ["the image's numeric user", { image: numbered }, 1001n, "", undefined],
  ["the image's user name, which the runtime resolves", { image: named }, undefined, "web", undefined],
  ["the pod's user overrides the image's", { ofPod: { runAsUser: 7 }, image: named }, 7n, "", undefined],
  ["the container's user overrides the pod's", { own: { runAsUser: 8 }, ofPod: { runAsUser: 7 } }, 8n, "", undefined],
  ["the container's user 0 overrides the pod's", { own: { runAsUser: 0 }, ofPod: { runAsUser: 7 } }, 0n, "", undefined],
  ["the pod's group is set", { ofPod: { runAsUser: 7, runAsGroup: 70 } }, 7n, "", 70n],
  [
    "the container's group overrides the pod's",
    { own: { runAsGroup: 80 }, ofPod: { runAsGroup: 70 }, image: numbered },
    1001n,
    "",
    80n,
  ],
];
for (const [sentence, input, user, name, group] of users)
  test(`user: ${sentence}`, () => {
    const { runAsUser, runAsUsername, runAsGroup } = contextOf(input).context;
    expect([runAsUser?.value, runAsUsername, runAsGroup?.value]).toEqual([user, name, group]);
  });

test("the sandbox runs as the pod's user, whatever its containers and images set", () => {
  const { sandbox } = contextOf({ own: { runAsUser: 8 }, ofPod: { runAsUser: 7, runAsGroup: 70 }, image: numbered });
  expect([sandbox.runAsUser?.value, sandbox.runAsGroup?.value]).toEqual([7n, 70n]);
  expect(contextOf({ own: { runAsUser: 8 }, image: numbered }).sandbox.runAsUser).toBeUndefined();
});

test("supplemental groups and their policy are the pod's, for sandbox and containers", () => {
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

const subject = '(pod: "web_shop(u)", container: a)';
const breaks = `container's runAsUser breaks non-root policy ${subject}`;
const willBeRoot = `container has runAsNonRoot and image will run as root ${subject}`;
const cannotVerify = `container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root ${subject}`;
const nonRoot: readonly [sentence: string, fixture: SecurityCase, message: string | undefined][] = [
  ["unset allows root", {}, undefined],
  ["the pod sets it and the image has no USER", { ofPod: { runAsNonRoot: true } }, willBeRoot],
  [
    "the container sets it and the image's user is 0",
    { own: { runAsNonRoot: true }, image: { uid: 0, username: "" } },
    willBeRoot,
  ],
  ["the image's user is not 0", { own: { runAsNonRoot: true }, image: numbered }, undefined],
  ["the image has a user name, which proves nothing", { own: { runAsNonRoot: true }, image: named }, cannotVerify],
  ["the image has a number and a name", { own: { runAsNonRoot: true }, image: { uid: 5, username: "web" } }, undefined],
  ["the container's runAsUser is 0", { own: { runAsNonRoot: true, runAsUser: 0 }, image: numbered }, breaks],
  ["the pod's runAsUser is 0", { ofPod: { runAsNonRoot: true, runAsUser: 0 } }, breaks],
  [
    "the container's runAsUser overrides the image's user",
    { own: { runAsUser: 7 }, ofPod: { runAsNonRoot: true } },
    undefined,
  ],
  [
    "the container's false overrides the pod's true",
    { own: { runAsNonRoot: false }, ofPod: { runAsNonRoot: true } },
    undefined,
  ],
];
for (const [sentence, input, message] of nonRoot)
  test(`runAsNonRoot: ${sentence}`, () => {
    const translate = () => contextOf(input);
    if (message === undefined) expect(translate).not.toThrow();
    else {
      expect(translate).toThrow(TranslateError);
      expect(translate).toThrow(expect.objectContaining({ reason: "CreateContainerConfigError", message }));
    }
  });

test("paths that expose the host are masked, and paths that change it are read-only", () => {
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
  test(`no path is masked for ${sentence}`, () => {
    const { maskedPaths, readonlyPaths } = contextOf({ own }).context;
    expect([...maskedPaths, ...readonlyPaths]).toEqual([]);
  });

test("only a privileged container makes its sandbox privileged", () => {
  expect(contextOf({ own: { privileged: true } })).toMatchObject({
    context: { privileged: true },
    sandbox: { privileged: true },
  });
  expect(contextOf({})).toMatchObject({ context: { privileged: false }, sandbox: { privileged: false } });
});

test("a privileged init or ephemeral container makes the sandbox privileged, since runtimes require it", () => {
  const privileged = [{ name: "other", securityContext: { privileged: true } }];
  for (const list of ["initContainers", "ephemeralContainers"])
    expect(contextOf({ spec: { [list]: privileged } })).toMatchObject({
      context: { privileged: false },
      sandbox: { privileged: true },
    });
});

const flags: readonly [sentence: string, own: SecurityContext, expected: object][] = [
  ["new privileges are allowed by default", {}, { noNewPrivs: false }],
  ["allowPrivilegeEscalation false sets noNewPrivs", { allowPrivilegeEscalation: false }, { noNewPrivs: true }],
  ["allowPrivilegeEscalation true does not set noNewPrivs", { allowPrivilegeEscalation: true }, { noNewPrivs: false }],
  ["the root file system is writable by default", {}, { readonlyRootfs: false }],
  ["readOnlyRootFilesystem makes it read-only", { readOnlyRootFilesystem: true }, { readonlyRootfs: true }],
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
const seccomp: readonly [sentence: string, fixture: SecurityCase, type: ProfileType, ref: string][] = [
  ["unset means Unconfined", {}, Unconfined, ""],
  ["unset means RuntimeDefault under seccompDefault", { seccompDefault: true }, RuntimeDefault, ""],
  [
    "Unconfined overrides seccompDefault",
    { own: { seccompProfile: { type: "Unconfined" } }, seccompDefault: true },
    Unconfined,
    "",
  ],
  ["the pod's", { ofPod: { seccompProfile: { type: "RuntimeDefault" } } }, RuntimeDefault, ""],
  [
    "the container's profile overrides the pod's",
    { own: { seccompProfile: { type: "Unconfined" } }, ofPod: { seccompProfile: { type: "RuntimeDefault" } } },
    Unconfined,
    "",
  ],
  [
    "a Localhost profile is a file below the node's seccomp directory",
    { own: localhost("web/strict.json") },
    Localhost,
    "/root-dir/seccomp/web/strict.json",
  ],
  ["a file name may begin with dots", { own: localhost("..strict") }, Localhost, "/root-dir/seccomp/..strict"],
];
for (const [sentence, input, profileType, localhostRef] of seccomp)
  test(`seccomp: ${sentence}`, () => {
    expect(contextOf(input).context.seccomp).toEqual({ profileType, localhostRef });
  });

test("the sandbox always runs with the runtime's default seccomp profile", () => {
  const { sandbox } = contextOf({ ofPod: { seccompProfile: { type: "Unconfined" } } });
  expect(sandbox.seccomp).toEqual({ profileType: RuntimeDefault, localhostRef: "" });
});

for (const file of ["/etc/passwd", "..", "../x", "a/../../x", "a/.."])
  test(`the Localhost seccomp profile ${JSON.stringify(file)} is rejected`, () => {
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

test("an unknown supplementalGroupsPolicy fails the sandbox", () => {
  const ofPod = Object.assign({}, { supplementalGroupsPolicy: "Sometimes" }) as NonNullable<SecurityCase["ofPod"]>;
  expect(() => contextOf({ ofPod })).toThrow(
    expect.objectContaining({
      reason: "CreatePodSandboxError",
      message: "unsupported supplementalGroupsPolicy: Sometimes",
    }),
  );
});

const annotated = (text: string): Partial<SecurityCase> => ({ annotations: { [`${ANNOTATION}a`]: text } });
const apparmor: readonly [sentence: string, fixture: SecurityCase, profile: object | undefined, text: string][] = [
  ["unset is left to the runtime", {}, undefined, ""],
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
    "the pod's Localhost profile is named",
    { ofPod: { appArmorProfile: { type: "Localhost", localhostProfile: "strict" } } },
    { profileType: Localhost, localhostRef: "strict" },
    "localhost/strict",
  ],
  [
    "an annotation for the container overrides the pod's field",
    { ...annotated("localhost/old"), ofPod: { appArmorProfile: { type: "Unconfined" } } },
    { profileType: Localhost, localhostRef: "old" },
    "localhost/old",
  ],
  [
    "the container's field overrides an annotation",
    { ...annotated("unconfined"), own: { appArmorProfile: { type: "RuntimeDefault" } } },
    { profileType: RuntimeDefault, localhostRef: "" },
    "runtime/default",
  ],
  [
    "an annotation may name the runtime's default",
    annotated("runtime/default"),
    { profileType: RuntimeDefault, localhostRef: "" },
    "runtime/default",
  ],
  ["an invalid annotation is ignored", annotated("strict"), undefined, ""],
  [
    "an annotation for another container is ignored",
    { annotations: { [`${ANNOTATION}b`]: "unconfined" } },
    undefined,
    "",
  ],
];
for (const [sentence, input, profile, text] of apparmor)
  test(`AppArmor: ${sentence}`, () => {
    const { apparmor: found, apparmorProfile } = contextOf(input).context;
    expect([found, apparmorProfile]).toEqual([profile as never, text]);
  });

test("SELinux options of the container override the pod's, and unset fields are empty", () => {
  const ofPod = { seLinuxOptions: { level: "s0", user: "u" } };
  expect(contextOf({ ofPod }).context.selinuxOptions).toEqual({ user: "u", role: "", type: "", level: "s0" });
  const { context, sandbox } = contextOf({ ofPod, own: { seLinuxOptions: { level: "s1" } } });
  expect(context.selinuxOptions).toMatchObject({ level: "s1", user: "" });
  expect(sandbox.selinuxOptions).toMatchObject({ level: "s0", user: "u" });
  expect(contextOf({}).context.selinuxOptions).toBeUndefined();
});

const { POD, CONTAINER, NODE } = NamespaceMode;
const namespaces: readonly [sentence: string, spec: Partial<PodSpec>, network: number, ipc: number, pid: number][] = [
  ["a pod has its own network and IPC, and each container its own processes", {}, POD, POD, CONTAINER],
  ["shareProcessNamespace shares processes in the pod", { shareProcessNamespace: true }, POD, POD, POD],
  ["hostNetwork uses the node's network", { hostNetwork: true }, NODE, POD, CONTAINER],
  ["hostIPC uses the node's IPC", { hostIPC: true }, POD, NODE, CONTAINER],
  [
    "hostPID uses the node's processes, whatever shareProcessNamespace is",
    { hostPID: true, shareProcessNamespace: true },
    POD,
    POD,
    NODE,
  ],
];
for (const [sentence, spec, network, ipc, pid] of namespaces)
  test(`namespaces: ${sentence}`, () => {
    const { context, sandbox } = contextOf({ spec });
    for (const { namespaceOptions } of [context, sandbox])
      expect(namespaceOptions).toMatchObject({ network, ipc, pid });
  });
