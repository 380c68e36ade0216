import {
  LinuxContainerSecurityContext,
  LinuxSandboxSecurityContext,
  NamespaceMode,
  NamespaceOption,
  SecurityProfile,
  SecurityProfile_ProfileType,
  SupplementalGroupsPolicy,
} from "../../../proto/cri/gen/api.ts";
import type { ImageUser } from "../../../proto/cri/image-user.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { appArmorProfileOf } from "../../../proto/kubernetes/app-armor.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type {
  AppArmorProfile,
  Container,
  Pod,
  SELinuxOptions,
  SeccompProfile,
} from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "../node-facts.ts";
import { TranslateError } from "../translate-error.ts";
import { volumeGroups } from "../volumes/volume-groups.ts";
import { type IdRange, userNamespaceOf } from "./user-namespace.ts";

/**
 * Paths that expose the host, masked unless `procMount: Unmasked`. The kubelet's list; it also masks each CPU's
 * `thermal_throttle`, whose counters would leak the workload of other pods.
 */
const MASKED_PATHS: readonly string[] = [
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
];
const READONLY_PATHS: readonly string[] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/** The security context of the sandbox: the user of its first process and the namespaces shared with the node. */
export function sandboxSecurityContext(
  pod: Pod,
  facts: Pick<NodeFacts, "cluster">,
  ids?: IdRange,
): LinuxSandboxSecurityContext {
  const { securityContext } = pod.spec;
  return LinuxSandboxSecurityContext.fromPartial({
    namespaceOptions: namespacesOf(pod, ids),
    privileged: allContainers(pod.spec).some((container) => container.securityContext?.privileged === true),
    seccomp: { profileType: SecurityProfile_ProfileType.RuntimeDefault, localhostRef: "" },
    ...userAndGroup(securityContext?.runAsUser, securityContext?.runAsGroup),
    ...groups(pod, facts),
    ...selinux(securityContext?.seLinuxOptions),
  });
}

/**
 * The security context of a container; its own fields override the pod's. Throws `TranslateError` for what cannot be
 * enforced.
 */
export function containerSecurityContext(
  pod: Pod,
  container: Container,
  image: ImageUser,
  facts: NodeFacts,
  ids?: IdRange,
): LinuxContainerSecurityContext {
  const ofPod = pod.spec.securityContext;
  const own = container.securityContext;
  verifyNonRoot(pod, container, image);
  const isUnmasked = own?.procMount === "Unmasked" || own?.privileged === true;
  return LinuxContainerSecurityContext.fromPartial({
    privileged: own?.privileged === true,
    readonlyRootfs: own?.readOnlyRootFilesystem === true,
    noNewPrivs: own?.allowPrivilegeEscalation === false,
    namespaceOptions: namespacesOf(pod, ids),
    capabilities: {
      addCapabilities: [...(own?.capabilities?.add ?? [])],
      dropCapabilities: [...(own?.capabilities?.drop ?? [])],
    },
    maskedPaths: isUnmasked ? [] : [...MASKED_PATHS, ...facts.thermalThrottlePaths],
    readonlyPaths: isUnmasked ? [] : [...READONLY_PATHS],
    seccomp: seccompProfile(own?.seccompProfile ?? ofPod?.seccompProfile, facts),
    ...apparmor(appArmorProfileOf(pod, container)),
    ...userAndGroup(own?.runAsUser ?? ofPod?.runAsUser, own?.runAsGroup ?? ofPod?.runAsGroup, image),
    ...groups(pod, facts),
    ...selinux(own?.seLinuxOptions ?? ofPod?.seLinuxOptions),
  });
}

/**
 * The namespaces of an ephemeral container with `targetContainerName`. When the pod or the node already shares its
 * process namespace, the target needs no namespace of its own.
 */
export function namespacesOfTarget(pod: Pod, targetId: ContainerId, ids?: IdRange): NamespaceOption {
  const options = namespacesOf(pod, ids);
  return options.pid === NamespaceMode.CONTAINER ? { ...options, pid: NamespaceMode.TARGET, targetId } : options;
}

function namespacesOf(pod: Pod, ids: IdRange | undefined): NamespaceOption {
  const { hostNetwork, hostIPC, hostPID, shareProcessNamespace } = pod.spec;
  const usernsOptions = userNamespaceOf(pod, ids);
  const shared = shareProcessNamespace === true ? NamespaceMode.POD : NamespaceMode.CONTAINER;
  return NamespaceOption.fromPartial({
    network: hostNetwork === true ? NamespaceMode.NODE : NamespaceMode.POD,
    ipc: hostIPC === true ? NamespaceMode.NODE : NamespaceMode.POD,
    pid: hostPID === true ? NamespaceMode.NODE : shared,
    ...(usernsOptions && { usernsOptions }),
  });
}

function userAndGroup(user: number | undefined, group: number | undefined, image?: ImageUser) {
  const byName = user === undefined && image?.uid === undefined ? image?.username : undefined;
  // An image without USER runs as root. Set the uid explicitly, since runtimes reject a group without a user.
  const uid = user ?? image?.uid ?? (byName === "" ? 0 : undefined);
  return {
    ...(uid === undefined ? {} : { runAsUser: { value: BigInt(uid) } }),
    ...(byName === undefined || byName === "" ? {} : { runAsUsername: byName }),
    ...(group === undefined ? {} : { runAsGroup: { value: BigInt(group) } }),
  };
}

function groups(pod: Pod, facts: Pick<NodeFacts, "cluster">) {
  const { fsGroup, supplementalGroups = [], supplementalGroupsPolicy } = pod.spec.securityContext ?? {};
  const ofPod = [...(fsGroup === undefined ? [] : [fsGroup]), ...supplementalGroups].map(BigInt);
  return {
    supplementalGroups: [...ofPod, ...volumeGroups(pod, facts)],
    supplementalGroupsPolicy: groupsPolicy(supplementalGroupsPolicy),
  };
}

/** RunPodSandbox is the first call with this policy, so an unknown one fails the sandbox. */
function groupsPolicy(policy: string | undefined): SupplementalGroupsPolicy {
  if (policy === "Strict") return SupplementalGroupsPolicy.Strict;
  if (policy === undefined || policy === "Merge") return SupplementalGroupsPolicy.Merge;
  throw new TranslateError("CreatePodSandboxError", `unsupported supplementalGroupsPolicy: ${policy}`);
}

/** Checks `runAsNonRoot` at every start, since the user of an image may change under the same tag. */
function verifyNonRoot(pod: Pod, container: Container, { uid, username }: ImageUser): void {
  const ofPod = pod.spec.securityContext;
  const own = container.securityContext;
  if ((own?.runAsNonRoot ?? ofPod?.runAsNonRoot) !== true) return;
  const user = own?.runAsUser ?? ofPod?.runAsUser;
  if (user !== undefined && user !== 0) return;
  const { name = "", namespace = "default", uid: podUid = "" } = pod.metadata;
  const subject = `(pod: "${name}_${namespace}(${podUid})", container: ${container.name})`;
  const toError = (message: string) => new TranslateError("CreateContainerConfigError", `${message} ${subject}`);
  if (user === 0) throw toError("container's runAsUser breaks non-root policy");
  if (uid === undefined && username !== "")
    throw toError(
      `container has runAsNonRoot and image has non-numeric user (${username}), cannot verify user is non-root`,
    );
  if ((uid ?? 0) === 0) throw toError("container has runAsNonRoot and image will run as root");
}

/** Without a profile: Unconfined, or RuntimeDefault under `seccompDefault`. An empty `localhostProfile` is an error. */
function seccompProfile(profile: SeccompProfile | undefined, facts: NodeFacts): SecurityProfile {
  rejectUnknownType("seccompProfile", profile?.type);
  switch (profile?.type) {
    case "Unconfined":
      return SecurityProfile.fromPartial({ profileType: SecurityProfile_ProfileType.Unconfined });
    case "RuntimeDefault":
      return SecurityProfile.fromPartial({ profileType: SecurityProfile_ProfileType.RuntimeDefault });
    case "Localhost": {
      const file = profile.localhostProfile ?? "";
      if (file === "")
        throw new TranslateError(
          "CreateContainerConfigError",
          "localhostProfile must be set if seccompProfile type is Localhost.",
        );
      if (file.startsWith("/") || file.split("/").includes(".."))
        throw new TranslateError(
          "CreateContainerConfigError",
          `localhostProfile must be a relative path below the node's seccomp folder, found ${JSON.stringify(file)}`,
        );
      const localhostRef = `${facts.rootDir}/seccomp/${file}`;
      return SecurityProfile.fromPartial({ profileType: SecurityProfile_ProfileType.Localhost, localhostRef });
    }
    case undefined: {
      const { RuntimeDefault, Unconfined } = SecurityProfile_ProfileType;
      return SecurityProfile.fromPartial({ profileType: facts.seccompDefault ? RuntimeDefault : Unconfined });
    }
  }
}

/**
 * Sets both fields, since older runtimes read only the string. An empty `localhostProfile` is an error: it would mean
 * no profile.
 */
function apparmor(
  profile: AppArmorProfile | undefined,
): Pick<LinuxContainerSecurityContext, "apparmor" | "apparmorProfile"> | undefined {
  rejectUnknownType("appArmorProfile", profile?.type);
  const { Localhost, RuntimeDefault, Unconfined } = SecurityProfile_ProfileType;
  switch (profile?.type) {
    case "Unconfined":
      return { apparmor: { profileType: Unconfined, localhostRef: "" }, apparmorProfile: "unconfined" };
    case "RuntimeDefault":
      return { apparmor: { profileType: RuntimeDefault, localhostRef: "" }, apparmorProfile: "runtime/default" };
    case "Localhost": {
      const localhostRef = profile.localhostProfile ?? "";
      if (localhostRef.trim() === "")
        throw new TranslateError(
          "CreateContainerConfigError",
          "localhostProfile must be set if appArmorProfile type is Localhost",
        );
      return { apparmor: { profileType: Localhost, localhostRef }, apparmorProfile: `localhost/${localhostRef}` };
    }
    case undefined:
      return undefined;
  }
}

/** A newer API server may send an unknown type. Fail rather than run the container without its confinement. */
function rejectUnknownType(field: string, type: string | undefined): void {
  if (type === undefined || ["Unconfined", "RuntimeDefault", "Localhost"].includes(type)) return;
  throw new TranslateError(
    "CreateContainerConfigError",
    `${field} has a type that this release does not know: ${JSON.stringify(type)}`,
  );
}

function selinux(options: SELinuxOptions | undefined) {
  if (options === undefined) return {};
  const { user = "", role = "", type = "", level = "" } = options;
  return { selinuxOptions: { user, role, type, level } };
}
