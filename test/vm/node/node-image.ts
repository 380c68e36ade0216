import { copyFile, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { buildTestImages } from "../../bed/images/images.ts";
import { packLayout } from "../../bed/images/oci-layout.ts";
import { unpackPackages } from "../../bed/packages.ts";
import { berthFolder, testsFolder } from "../guest-paths.ts";
import { createDisk, type PackagePrograms } from "../host-programs.ts";
import type { Image } from "../image.ts";
import { findKernel, makeInitrd } from "../initrd.ts";
import {
  type CgroupDriver,
  guestAddress,
  hostAddress,
  type NodeContainerd,
  type SystemFile,
  shellScript,
  systemFiles,
} from "./system-files.ts";

/** What differs between the nodes of the tests. */
export interface NodeOptions {
  readonly hostName: string;
  readonly containerd: NodeContainerd;
  readonly driver: CgroupDriver;
  /** The node agents that it has, as services that are not started. */
  readonly agents: Readonly<Record<string, NodeAgent>>;
  /** Files of the host that it has below `testsFolder`, by name. */
  readonly tests?: Readonly<Record<string, string>>;
}

/** A node agent: its program on the host, and its arguments. */
export interface NodeAgent {
  readonly program: string;
  readonly args: readonly string[];
}

const requiredModules = ["virtio_blk", "virtio_net", "overlay", "bridge", "veth"];

/**
 * Creates the disks of a node in `folder`: Debian 13 with systemd as process 1, from cached packages whose installation
 * scripts have not run, and a disk with the agents and the images of pods.
 */
export async function makeNodeImage(
  folder: string,
  programs: PackagePrograms,
  options: NodeOptions,
  print: (line: string) => void,
): Promise<Image> {
  const { root } = await unpackPackages("vm-node", print);
  const [system, tested] = [join(folder, "system.img"), join(folder, "tested.img")];
  const stage = join(folder, "tested");
  await prepareTestedFiles(stage, options, print);
  // Free space, so that no agent sees too little of it.
  await createDisk(programs, system, root, "3g");
  await createDisk(programs, tested, stage, "1g");
  await rm(stage, { recursive: true });
  const initrd = join(folder, "initrd.img");
  await writeFile(initrd, await makeInitrd(root, programs, requiredModules, startSystemd));
  return { kernel: await findKernel(root), initrd, disks: [system, tested] };
}

async function prepareTestedFiles(
  stage: string,
  { hostName, containerd, driver, agents, tests = {} }: NodeOptions,
  print: (line: string) => void,
): Promise<void> {
  const commands = Object.entries(agents).map(
    ([name, { args }]) => [name, [`${berthFolder}/agents/${name}`, ...args]] as const,
  );
  for (const [path, file] of systemFiles(hostName, containerd, driver, Object.fromEntries(commands)))
    await writeSystemFile(join(stage, "system", path), file);
  await writeSystemFile(join(stage, "www/cgi-bin/run"), { text: shellScript, isProgram: true });
  await mkdir(join(stage, "agents"));
  for (const [name, { program }] of Object.entries(agents)) await copyFile(program, join(stage, "agents", name));
  await mkdir(join(stage, basename(testsFolder)));
  for (const [name, file] of Object.entries(tests)) await copyFile(file, join(stage, basename(testsFolder), name));
  if (containerd === "2.1") {
    const { root } = await unpackPackages("forky", print);
    await mkdir(join(stage, "containerd"));
    for (const program of ["containerd", "containerd-shim-runc-v2", "ctr"])
      await copyFile(join(root, "usr/bin", program), join(stage, "containerd", program));
  }
  await writeFile(join(stage, "images.tar"), packLayout(await buildTestImages()));
}

async function writeSystemFile(path: string, file: SystemFile): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  if ("target" in file) await symlink(file.target, path);
  else await writeFile(path, file.text, { mode: file.isProgram === true ? 0o755 : 0o644 });
}

/** The end of the init script: lays the system files over the root file system, and starts systemd as process 1. */
const startSystemd = `mount -t ext4 /dev/vda /root
mkdir -p /root${berthFolder}
mount -t ext4 /dev/vdb /root${berthFolder}
cp -a /root${berthFolder}/system/. /root/
ip link set lo up
ip addr add ${guestAddress}/24 dev eth0
ip link set eth0 up
ip route add default via ${hostAddress}
umount /proc
mount --move /dev /root/dev
exec switch_root /root /usr/sbin/init
`;
