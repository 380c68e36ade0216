import { copyFile, mkdir, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cniConflist } from "../bed/containerd/containerd-config.ts";
import { buildTestImages, pauseImage } from "../bed/images/images.ts";
import { packLayout } from "../bed/images/oci-layout.ts";
import { unpackPackages } from "../bed/packages.ts";
import { berthFolder } from "./guest-paths.ts";
import { createDisk, type PackagePrograms } from "./host-programs.ts";
import { findKernel, makeInitrd } from "./initrd.ts";

/** The kernel, initramfs and disks of a guest. */
export interface Image {
  readonly kernel: string;
  readonly initrd: string;
  /** Raw disks in the guest's order: root file system, tested files, swap. */
  readonly disks: readonly string[];
}

/** The modules that the guest's disks, containers and network need and that its kernel does not have built in. */
const requiredModules = ["virtio_blk", "overlay", "bridge", "veth"];

/**
 * Creates the guest's disks in `folder` from cached Debian packages, the compiled agent and the compiled `guest`
 * program. Takes a few seconds once the packages are cached. Throws an error of one line if they cannot be downloaded.
 */
export async function makeImage(
  folder: string,
  programs: PackagePrograms,
  binaries: { readonly berth: string; readonly guest: string },
  print: (line: string) => void,
): Promise<Image> {
  const { root } = await unpackPackages("vm-guest", print);
  const [system, tested, swap] = ["system.img", "tested.img", "swap.img"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const stage = join(folder, "tested");
  await prepareTestedFiles(stage, binaries);
  await createDisk(programs, system, root, "900m");
  await createDisk(programs, tested, stage, "500m");
  await rm(stage, { recursive: true });
  await writeFile(swap, "");
  await truncate(swap, 128 * 1024 * 1024);
  const initrd = join(folder, "initrd.img");
  await writeFile(initrd, await makeInitrd(root, programs, requiredModules, startTests));
  return { kernel: await findKernel(root), initrd, disks: [system, tested, swap] };
}

async function prepareTestedFiles(stage: string, { berth, guest }: { readonly berth: string; readonly guest: string }) {
  await mkdir(join(stage, "cni"), { recursive: true });
  await copyFile(berth, join(stage, "berth"));
  await copyFile(guest, join(stage, "guest"));
  await writeFile(join(stage, "images.tar"), packLayout(await buildTestImages()));
  await writeFile(join(stage, "containerd.toml"), containerdConfig);
  const network = { name: "vm", bridge: "vm0", subnet: "10.88.0.0/16", leases: "/run/cni" };
  const { plugins, ...list } = JSON.parse(cniConflist(network)) as { readonly plugins: readonly unknown[] };
  // No host port leads to these pods, so the guest needs no iptables.
  await writeFile(join(stage, "cni/10-vm.conflist"), JSON.stringify({ ...list, plugins: plugins.slice(0, 1) }));
}

const cri = `plugins."io.containerd.grpc.v1.cri"`;
const containerdConfig = `version = 2
[${cri}]
  sandbox_image = ${JSON.stringify(pauseImage)}
  [${cri}.cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "${berthFolder}/cni"
`;

/**
 * The end of the guest's init script for busybox. The output of the kernel and of this script goes to the first serial
 * port, that of the tests to the second. catatonit becomes process 1 and reaps orphans. Everything runs in a cgroup of
 * its own, like a service: from its files the agent, like the kubelet, learns whether the kernel limits swap.
 */
const startTests = `mount -t ext4 /dev/vda /root
mkdir -p /root${berthFolder}
mount -t ext4 /dev/vdb /root${berthFolder}
mkswap /dev/vdc
swapon /dev/vdc
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts devpts /root/dev/pts
for folder in dev/shm run tmp; do mount -t tmpfs tmpfs /root/$folder; done
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
for controller in cpu cpuset io memory pids hugetlb; do echo +$controller > /root/sys/fs/cgroup/cgroup.subtree_control; done
echo "# no name server" > /root/etc/resolv.conf
echo "127.0.0.1 localhost" > /root/etc/hosts
mkdir /root/sys/fs/cgroup/machine
echo $$ > /root/sys/fs/cgroup/machine/cgroup.procs
hostname vm
ip link set lo up
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
umount /proc
exec switch_root /root /usr/bin/catatonit -- ${berthFolder}/guest < /dev/null > /dev/ttyS1
`;
