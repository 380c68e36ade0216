import type { Cgroups } from "../../../cgroups/cgroups.ts";
import { type CgroupName, podCgroupName, possiblePodCgroups } from "../../../proto/cgroup/cgroup-name.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ResourceAction } from "../../decide/actions/resource-actions.ts";
import { podCgroupLimits } from "../../decide/cgroups/pod-cgroup.ts";
import type { PodResource, ResourceKind } from "../../decide/pod/resources.ts";
import { qosClassOf } from "../../decide/status/qos.ts";
import { podLogDir } from "../../translate/log-path.ts";
import { logFolderOf } from "../logs/log-folder.ts";
import { allocateIds } from "../user-namespaces.ts";
import { makePodDirs, removePodDirs } from "../volumes/pod-dirs.ts";
import { makeSubPathsDir, removeSubPaths } from "../volumes/sub-paths.ts";
import { isVolumeOnNode, removeVolume, setUpVolume } from "../volumes/volume-plugins.ts";
import { makeWithinUse } from "./cgroup-limits.ts";
import { type ActDeps, type ActInput, type Performers, podOf } from "./performer.ts";

/** How one kind of a pod's resources is made and removed, each with one outside call. Both are idempotent. */
interface ResourcePerformer<R extends PodResource> {
  make(deps: ActDeps, input: ActInput, resource: R, signal: AbortSignal): Promise<void>;
  remove(deps: ActDeps, input: ActInput, resource: R, signal: AbortSignal): Promise<void>;
  /** Whether the pod has something of its own on the node then, which `observed/` would find. */
  isPresentWhenMade(pod: Pod | undefined, resource: R): boolean;
}

const resourcePerformers = {
  cgroup: {
    async make(deps, input, _resource, signal) {
      const { cgroups, pod, name } = podCgroupOf(deps, input);
      await cgroups.make(name, podCgroupLimits(pod, qosClassOf(pod), deps.facts()), signal);
    },
    async remove({ cgroups }, { uid }, _resource, signal) {
      if (cgroups === undefined) return;
      for (const name of await presentCgroups(cgroups, uid)) await cgroups.remove(name, signal);
    },
    isPresentWhenMade: () => true,
  },
  podDirs: {
    async make({ disk }, input) {
      await makePodDirs(disk, podOf(input));
    },
    async remove({ disk, mounts, userNamespaces }, input) {
      await removePodDirs(disk, mounts, input.uid);
      await userNamespaces.forget(input.uid);
    },
    isPresentWhenMade: () => true,
  },
  logDir: {
    make: ({ disk }, input) => disk.logs.makeFolder(podLogDir(podOf(input)), 0o755),
    async remove({ disk }, input) {
      const folder = logFolderOf(input);
      if (folder !== undefined) await disk.logs.remove(folder);
    },
    isPresentWhenMade: () => true,
  },
  userIds: {
    async make({ userNamespaces }, input) {
      await allocateIds(userNamespaces, podOf(input));
    },
    remove: ({ userNamespaces }, { uid }) => userNamespaces.release(uid),
    isPresentWhenMade: () => true,
  },
  volume: {
    make: (deps, input, { name }, signal) => setUpVolume(deps, podOf(input), name, signal),
    remove: (deps, { uid }, { name }, signal) => removeVolume(deps, { uid, name }, signal),
    isPresentWhenMade: (pod, { name }) => pod !== undefined && isVolumeOnNode(pod, name),
  },
  subPaths: {
    make: ({ disk }, { uid }) => makeSubPathsDir(disk, uid),
    remove: (deps, { uid }, _resource, signal) => removeSubPaths(deps, uid, signal),
    isPresentWhenMade: () => true,
  },
} satisfies { readonly [K in ResourceKind]: ResourcePerformer<Extract<PodResource, { readonly of: K }>> };

const noCgroups = () => new Error("cgroupsPerQOS is off: pods have no cgroups of their own");

/** The cgroup of a desired pod on a node whose pods have cgroups: no other is asked for one. */
function podCgroupOf({ cgroups }: ActDeps, input: ActInput) {
  if (cgroups === undefined) throw noCgroups();
  const pod = podOf(input);
  return { cgroups, pod, name: podCgroupName(input.uid, qosClassOf(pod)) };
}

/** The cgroup of a pod whose QoS class is not known, since it is no longer desired, or had another one before. */
async function presentCgroups(cgroups: Pick<Cgroups, "children">, uid: PodUid): Promise<readonly CgroupName[]> {
  const present = await Promise.all(
    possiblePodCgroups(uid).map(async (name) => {
      const found = await cgroups.children(name.slice(0, -1));
      return found.map(withHyphens).includes(withHyphens(name.at(-1) ?? "")) ? [name] : [];
    }),
  );
  return present.flat();
}

/** With systemd a hyphen of a uid and an underscore are one. */
const withHyphens = (element: string) => element.replaceAll("_", "-");

function resourcePerformerOf({ of }: PodResource): ResourcePerformer<PodResource> {
  return resourcePerformers[of];
}

/** The actions on all kinds of resources. */
export const resourceActionPerformers: Performers<ResourceAction> = {
  makeResource: {
    async perform(deps, input, { resource }, signal) {
      await resourcePerformerOf(resource).make(deps, input, resource, signal);
      return {};
    },
    effect({ resource }, _output, { pod }) {
      if (resource.of === "cgroup") return { kind: "cgroup" };
      const isPresent = resourcePerformerOf(resource).isPresentWhenMade(pod, resource);
      return isPresent ? { kind: "resourceMade", resource } : { kind: "nothing" };
    },
  },
  mountVolume: {
    async perform(deps, input, { name }, signal) {
      await setUpVolume(deps, podOf(input), name, signal);
      return {};
    },
    effect: () => ({ kind: "files" }),
  },
  updateVolume: {
    async perform(deps, input, { name }, signal) {
      await setUpVolume(deps, podOf(input), name, signal);
      return {};
    },
    effect: () => ({ kind: "nothing" }),
  },
  writePodCgroup: {
    async perform(deps, input, { limits }, signal) {
      const { cgroups } = deps;
      if (cgroups === undefined) throw noCgroups();
      const names =
        input.desired === undefined ? await presentCgroups(cgroups, input.uid) : [podCgroupOf(deps, input).name];
      for (const name of names) await makeWithinUse(cgroups, name, limits, signal);
      return {};
    },
    effect: () => ({ kind: "cgroup" }),
  },
  removeResource: {
    async perform(deps, input, { resource }, signal) {
      await resourcePerformerOf(resource).remove(deps, input, resource, signal);
      return {};
    },
    effect: ({ resource: { of } }) => ({ kind: of === "cgroup" ? "cgroup" : "files" }),
  },
};
