import { copyFile, mkdir, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { execa } from "execa";
import { ownProcessGroup } from "../bed/cleanup/processes.ts";
import { cniConflist } from "../bed/containerd/containerd-config.ts";
import { buildTestImages, pauseImage } from "../bed/images/images.ts";
import { packLayout } from "../bed/images/oci-layout.ts";
import { unpackPackages } from "../bed/packages.ts";
import { writeCpio } from "./cpio.ts";
import { berthFolder } from "./guest-paths.ts";

/** The kernel, initramfs and disks of a guest. */
export interface Image {
  readonly kernel: string;
  readonly initrd: string;
  /** Raw disks in the guest's order: root file system, tested files, swap. */
  readonly disks: readonly string[];
}

/** Runs programs of the unpacked packages with their own C library, independent of the machine's. */
export interface PackagePrograms {
  readonly root: string;
  /** The argument list that runs `program`, a path below `root`. */
  argv(program: string, args: readonly string[]): readonly [program: string, ...args: string[]];
}

/** Makes sure that the cache has QEMU and the programs that create disks. */
export async function unpackPrograms(print: (line: string) => void): Promise<PackagePrograms> {
  const { root } = await unpackPackages("vm-host", print);
  const libraries = ["lib", "usr/lib"].map((folder) => join(root, folder, "x86_64-linux-gnu")).join(":");
  return {
    root,
    argv: (program, args) => [
      join(root, "lib64/ld-linux-x86-64.so.2"),
      "--library-path",
      libraries,
      join(root, program),
      ...args,
    ],
  };
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
  const run = async (program: string, args: readonly string[]) => {
    const [first, ...rest] = programs.argv(program, args);
    return await execa(first, rest, { ...ownProcessGroup, encoding: "buffer" });
  };
  const [system, tested, swap] = ["system.img", "tested.img", "swap.img"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const stage = join(folder, "tested");
  await prepareTestedFiles(stage, binaries);
  for (const [disk, from, size] of [
    [system, root, "900m"],
    [tested, stage, "500m"],
  ] as const)
    await run("sbin/mke2fs", [
      "-q",
      "-t",
      "ext4",
      "-O",
      "^has_journal",
      "-E",
      "lazy_itable_init=1",
      "-d",
      from,
      disk,
      size,
    ]);
  await rm(stage, { recursive: true });
  await writeFile(swap, "");
  await truncate(swap, 128 * 1024 * 1024);
  const initrd = join(folder, "initrd.img");
  const unpack = async (file: string) => (await run("usr/bin/xz", ["-dc", file])).stdout;
  await writeFile(initrd, await makeInitrd(root, unpack));
  const kernel = (await readdir(join(root, "boot"))).find((name) => name.startsWith("vmlinuz-")) ?? "vmlinuz";
  return { kernel: join(root, "boot", kernel), initrd, disks: [system, tested, swap] };
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

/** The initramfs: loads the modules, mounts the disks and starts the test program. */
async function makeInitrd(root: string, unpack: (file: string) => Promise<Uint8Array>): Promise<Uint8Array> {
  const files = [...new Bun.Glob("usr/lib/modules/*/kernel/**/*.ko.xz").scanSync({ cwd: root, absolute: true })];
  const paths = new Map(files.map((file) => [moduleName(basename(file, ".ko.xz")), file]));
  const loaded = new Map<string, Uint8Array>();
  const load = async (name: string): Promise<void> => {
    const file = paths.get(name);
    // A module without a file is built into the kernel.
    if (file === undefined || loaded.has(name)) return;
    const bytes = await unpack(file);
    for (const needed of dependenciesOf(bytes)) await load(needed);
    loaded.set(name, bytes);
  };
  for (const name of requiredModules) await load(name);
  return writeCpio([
    { path: "init", bytes: new TextEncoder().encode(initScript([...loaded.keys()])), isProgram: true },
    { path: "bin/busybox", bytes: await readFile(join(root, "usr/bin/busybox")), isProgram: true },
    ...[...loaded].map(([name, bytes]) => ({ path: `modules/${name}.ko`, bytes })),
  ]);
}

const moduleName = (file: string) => file.replaceAll("-", "_");

/** The modules that a module needs, from its own metadata, because depmod has not run. */
export function dependenciesOf(module: Uint8Array): readonly string[] {
  const names = /\0depends=([^\0]*)\0/.exec(Buffer.from(module).toString("latin1"))?.[1] ?? "";
  return names.split(",").filter(Boolean).map(moduleName);
}

/**
 * The guest's init script for busybox. The output of the kernel and of this script goes to the first serial port, that
 * of the tests to the second. catatonit becomes process 1 and reaps orphans. Everything runs in a cgroup of its own,
 * like a service: from its files the agent, like the kubelet, learns whether the kernel limits swap.
 */
function initScript(modules: readonly string[]): string {
  return `#!/bin/busybox sh
set -e
/bin/busybox mkdir -p /dev /proc /sys /root /sbin
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
exec > /dev/ttyS0 2>&1
${modules.map((name) => `insmod /modules/${name}.ko`).join("\n")}
mount -t ext4 /dev/vda /root
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
}
