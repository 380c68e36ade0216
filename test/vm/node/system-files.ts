import { cniConflist } from "../../bed/containerd/containerd-config.ts";
import { pauseImage } from "../../bed/images/images.ts";
import { berthFolder } from "../guest-paths.ts";

/** The release of containerd: that of Debian 13, whose CRI lacks RuntimeConfig, or a later one that has it. */
export type NodeContainerd = "1.7" | "2.1";
/** Who creates the cgroups of containers: systemd, as on every distribution, or the runtime itself. */
export const cgroupDrivers = ["systemd", "cgroupfs"] as const;
export type CgroupDriver = (typeof cgroupDrivers)[number];
/** The name that each driver gives to the cgroup of all pods, below the root. */
export const rootCgroups: Readonly<Record<CgroupDriver, string>> = { systemd: "kubepods.slice", cgroupfs: "kubepods" };

/** The guest's port on which busybox' httpd runs the scripts of the tests. */
export const shellPort = 8000;
/** The guest's port on which its agent serves the API of the node: the default of `port`. */
export const kubeletPort = 10_250;
/** The guest's address in QEMU's own network. */
export const guestAddress = "10.0.2.15";
/** The host's 127.0.0.1, as the guest sees it. */
export const hostAddress = "10.0.2.2";

/** A file that is laid over the root file system of the guest: its text, or the target of a symlink. */
export type SystemFile = { readonly text: string; readonly isProgram?: boolean } | { readonly target: string };

/**
 * Units that would take seconds on the emulated processor and that no pod needs: udev finds devices, and getty waits
 * for a login. The package of ldconfig is not among the guest's.
 */
const maskedUnits = [
  "ldconfig.service",
  "systemd-udevd.service",
  "systemd-udevd-control.socket",
  "systemd-udevd-kernel.socket",
  "systemd-udevd-varlink.socket",
  "systemd-udev-trigger.service",
  "systemd-logind.service",
  "getty.target",
];

const enabledUnits = { "containerd.service": "/usr/lib/systemd/system/containerd.service", "guest-shell.service": "" };

/**
 * What the packages' installation scripts would have set up, and what makes the guest a node, by path: users, enabled
 * units, containerd's configuration, and the service of each agent. `agents` maps the name of a service to its command
 * line.
 */
export function systemFiles(
  hostName: string,
  containerd: NodeContainerd,
  driver: CgroupDriver,
  agents: Readonly<Record<string, readonly string[]>>,
): ReadonlyMap<string, SystemFile> {
  const units = "etc/systemd/system";
  return new Map<string, SystemFile>([
    ["etc/passwd", { text: passwd }],
    ["etc/group", { text: group }],
    ["etc/hostname", { text: `${hostName}\n` }],
    ["etc/hosts", { text: `127.0.0.1 localhost\n${guestAddress} ${hostName}\n` }],
    ["etc/resolv.conf", { text: `nameserver ${hostAddress}\n` }],
    // A known id: without one, systemd would take this for the first boot and enable all units that it finds.
    ["etc/machine-id", { text: "5f0c7e1e0bb64ad1a6ae5bb2e1a5c0de\n" }],
    // Nothing needs an update of /etc and /var, such as the hardware database of udev.
    ["etc/.updated", { text: "" }],
    ["var/.updated", { text: "" }],
    [`${units}/default.target`, { target: "/usr/lib/systemd/system/multi-user.target" }],
    ...maskedUnits.map((unit) => [`${units}/${unit}`, { target: "/dev/null" }] as const),
    ...Object.entries(enabledUnits).map(
      ([unit, file]) => [`${units}/multi-user.target.wants/${unit}`, { target: file || `../${unit}` }] as const,
    ),
    [`${units}/guest-shell.service`, { text: shellUnit }],
    [`${units}/containerd.service.d/berth.conf`, { text: containerdDropIn(containerd) }],
    ["etc/containerd/config.toml", { text: containerdConfig(containerd, driver) }],
    ["etc/cni/net.d/10-vm.conflist", { text: cniConflistWithoutPorts() }],
    ...Object.entries(agents).map(
      ([name, argv]) => [`${units}/${name}.service`, { text: agentUnit(name, argv) }] as const,
    ),
  ]);
}

/** The users that systemd and D-Bus run as. */
const systemUsers = ["messagebus", "systemd-network", "systemd-resolve", "systemd-timesync"];
const passwd = [
  "root:x:0:0:root:/root:/bin/sh",
  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
  ...systemUsers.map((name, at) => `${name}:x:${900 + at}:${900 + at}::/nonexistent:/usr/sbin/nologin`),
  "",
].join("\n");
const systemGroups = ["root", "adm", "tty", "disk", "kmem", "utmp", "systemd-journal"];
const group = [
  ...systemGroups.map((name, at) => `${name}:x:${at}:`),
  "nogroup:x:65534:",
  ...systemUsers.map((name, at) => `${name}:x:${900 + at}:`),
  "",
].join("\n");

/**
 * One process per script, and it is the last that the kernel kills for memory: tests look into the guest also while it
 * has none left.
 */
const shellUnit = `[Unit]
Description=Runs the scripts of the tests
[Service]
ExecStart=/usr/bin/busybox httpd -f -p ${shellPort} -h ${berthFolder}/www
OOMScoreAdjust=-1000
`;

/** Runs the body of a request as a script of the shell. The last line of the answer is its exit code. */
export const shellScript = `#!/usr/bin/busybox sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
script=/run/guest-shell.$$
/usr/bin/busybox head -c "$CONTENT_LENGTH" > $script
/usr/bin/busybox sh -e $script < /dev/null 2>&1
code=$?
/usr/bin/busybox rm $script
printf '\\nexit %s' $code
`;

const containerdDropIn = (containerd: NodeContainerd) =>
  containerd === "1.7"
    ? "# containerd of Debian 13, as its package has it\n"
    : `[Service]
Environment=PATH=${berthFolder}/containerd:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=
ExecStart=${berthFolder}/containerd/containerd
`;

function containerdConfig(containerd: NodeContainerd, driver: CgroupDriver): string {
  const systemdCgroup = `SystemdCgroup = ${driver === "systemd"}`;
  const pause = JSON.stringify(pauseImage);
  if (containerd === "1.7") {
    const cri = `plugins."io.containerd.grpc.v1.cri"`;
    return `version = 2
[${cri}]
  sandbox_image = ${pause}
  [${cri}.cni]
    bin_dir = "/usr/lib/cni"
  [${cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [${cri}.containerd.runtimes.runc.options]
      ${systemdCgroup}
`;
  }
  const runtime = `plugins."io.containerd.cri.v1.runtime"`;
  return `version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = ${pause}
[${runtime}.cni]
  bin_dirs = ["/usr/lib/cni"]
[${runtime}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [${runtime}.containerd.runtimes.runc.options]
    ${systemdCgroup}
`;
}

/** No host port leads to the pods of the guest, so it needs no iptables. */
function cniConflistWithoutPorts(): string {
  const network = { name: "vm", bridge: "vm0", subnet: "10.88.0.0/16", leases: "/run/cni" };
  const { plugins, ...list } = JSON.parse(cniConflist(network)) as { readonly plugins: readonly unknown[] };
  return JSON.stringify({ ...list, plugins: plugins.slice(0, 1) });
}

/** An agent restarts only when a test says so. Its children live on, as with the kubelet's unit of every distribution. */
const agentUnit = (name: string, argv: readonly string[]) => `[Unit]
Description=${name}
After=containerd.service
[Service]
ExecStart=${argv.join(" ")}
KillMode=process
`;
