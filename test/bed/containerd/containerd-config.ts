/** The paths and programs of one private containerd. All paths are absolute. */
export interface ContainerdPlan {
  readonly root: string;
  readonly state: string;
  readonly socket: string;
  readonly cniConfDir: string;
  readonly cniBinDir: string;
  readonly runc: string;
  readonly pauseImage: string;
  readonly registryHosts: string;
  /** Whether it sends traces, where its environment says. From 2.0 on. */
  readonly isTraced: boolean;
}

/** Plugins that would probe the host or create folders outside the state folder. */
const unwanted = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.nri.v1.nri",
];
const tracing = ["io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"];

/**
 * How long containerd waits for its shims. By default it gives up a shim that does not answer its first call within 5 s, and
 * kills its containers: on a machine that stops for a moment, the pods of a bed would restart without a fault of the agent.
 */
const timeouts = `[timeouts]
  "io.containerd.timeout.shim.load" = "1m"
  "io.containerd.timeout.task.state" = "1m"`;

const quote = (text: string) => JSON.stringify(text);

/**
 * The configuration file of containerd 1.x (format 2).
 *
 * `restrict_oom_score_adj`: root of a sandboxed machine may lack CAP_SYS_RESOURCE, and the kubelet requests -998 for
 * sandboxes. `netns_mounts_under_state_dir` and the runc `Root` keep all files below the state folder.
 */
export function configFormat2(plan: ContainerdPlan): string {
  const cri = `plugins."io.containerd.grpc.v1.cri"`;
  return `version = 2
root = ${quote(plan.root)}
state = ${quote(plan.state)}
disabled_plugins = ${JSON.stringify([...unwanted, ...tracing])}
[grpc]
  address = ${quote(plan.socket)}
${timeouts}
[${cri}]
  sandbox_image = ${quote(plan.pauseImage)}
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [${cri}.cni]
    bin_dir = ${quote(plan.cniBinDir)}
    conf_dir = ${quote(plan.cniConfDir)}
  [${cri}.registry]
    config_path = ${quote(plan.registryHosts)}
  [${cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [${cri}.containerd.runtimes.runc.options]
      BinaryName = ${quote(plan.runc)}
      Root = ${quote(`${plan.state}/runc`)}
`;
}

/**
 * The configuration file of containerd 2.x (format 3), which splits the CRI plugin into images and runtime. 2.0 takes
 * one folder of CNI plugins, and its successors deprecate that setting for a list.
 */
export function configFormat3(plan: ContainerdPlan, version: "2.0" | "2.1"): string {
  const bin = quote(plan.cniBinDir);
  const cniPlugins = version === "2.0" ? `bin_dir = ${bin}` : `bin_dirs = [${bin}]`;
  const images = `plugins."io.containerd.cri.v1.images"`;
  const runtime = `plugins."io.containerd.cri.v1.runtime"`;
  return `version = 3
root = ${quote(plan.root)}
state = ${quote(plan.state)}
disabled_plugins = ${JSON.stringify([...unwanted, ...(plan.isTraced ? [] : tracing)])}
[grpc]
  address = ${quote(plan.socket)}
${timeouts}
[${images}.pinned_images]
  sandbox = ${quote(plan.pauseImage)}
[${images}.registry]
  config_path = ${quote(plan.registryHosts)}
[${runtime}]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [${runtime}.cni]
    ${cniPlugins}
    conf_dir = ${quote(plan.cniConfDir)}
  [${runtime}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [${runtime}.containerd.runtimes.runc.options]
      BinaryName = ${quote(plan.runc)}
      Root = ${quote(`${plan.state}/runc`)}
`;
}

export interface PodNetwork {
  readonly name: string;
  readonly bridge: string;
  readonly subnet: string;
  readonly leases: string;
}

/**
 * A CNI configuration list: bridge, host-local addresses with leases in `leases`, portmap. No masquerading: pods of the
 * test bed need no outside network, and fewer rules need less clean-up.
 */
export function cniConflist(network: PodNetwork): string {
  const plugins = [
    {
      type: "bridge",
      bridge: network.bridge,
      isGateway: true,
      hairpinMode: true,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: network.subnet }]],
        routes: [{ dst: "0.0.0.0/0" }],
        dataDir: network.leases,
      },
    },
    { type: "portmap", capabilities: { portMappings: true } },
  ];
  return `${JSON.stringify({ cniVersion: "0.4.0", name: network.name, plugins }, null, 2)}\n`;
}
