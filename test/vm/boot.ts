import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ownProcessGroup } from "../bed/cleanup/processes.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import type { PackagePrograms } from "./host-programs.ts";
import type { Image } from "./image.ts";

/** A running or finished virtual machine. */
export interface Guest {
  readonly pid: number;
  /** The output of its tests, line by line, until it powers off. */
  readonly lines: AsyncIterable<string>;
  /** Resolves with the reason when it is off. */
  readonly ended: Promise<string>;
  /** The file with its kernel console. */
  readonly console: string;
  /** Kills it and resolves when it has exited. */
  kill(why: string): Promise<void>;
}

/** What a guest has besides its disks. */
export interface GuestMachine {
  readonly memoryMiB: number;
  /** Arguments of its kernel, in addition to those of every guest. */
  readonly kernelArgs?: readonly string[];
  /** Ports of the host's 127.0.0.1 that lead to ports of the guest, which has a network card if there are some. */
  readonly forwards?: readonly { readonly hostPort: number; readonly guestPort: number }[];
}

export interface BootOptions {
  readonly machine: GuestMachine;
  readonly programs: PackagePrograms;
  /** The folder for its console and its test output. */
  readonly folder: string;
  /** The time after which it is killed. */
  readonly limitMs: number;
}

/**
 * Boots a guest in QEMU with an emulated processor: KVM is not available everywhere, and nested KVM may hang. Kills it
 * after the time limit, and when this process exits for any reason.
 */
export function boot(image: Image, { machine, programs, folder, limitMs }: BootOptions): Guest {
  const consoleFile = join(folder, "console.log");
  const argv = qemuArgs(image, machine, programs.root, consoleFile);
  const [program, ...args] = programs.argv("usr/bin/qemu-system-x86_64", argv);
  const killedWithParent = ["--pdeathsig", "KILL", "--", program, ...args];
  const child = spawn("setpriv", killedWithParent, { ...ownProcessGroup, stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.pipe(createWriteStream(join(folder, "result.log")));
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => (stderr = `${stderr}${chunk}`.slice(-2000)));
  let reason: string | undefined;
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(`QEMU could not be started: ${error.message}`));
    child.once("close", (code, signal) =>
      resolve(
        reason ?? (code === 0 ? "it powered off" : `QEMU ended with ${signal ?? `code ${code}`}: ${stderr.trim()}`),
      ),
    );
  });
  const kill = async (why: string) => {
    reason ??= why;
    child.kill("SIGKILL");
    await ended;
  };
  const limit = setTimeout(() => void kill(`it was killed after ${limitMs / 60_000} minutes`), limitMs);
  void ended.then(() => clearTimeout(limit));
  return { pid: child.pid ?? 0, lines: createInterface({ input: child.stdout }), ended, console: consoleFile, kill };
}

function qemuArgs(
  { kernel, initrd, disks }: Image,
  { memoryMiB, kernelArgs = [], forwards = [] }: GuestMachine,
  root: string,
  consoleFile: string,
): readonly string[] {
  return [
    ...["-L", join(root, "usr/share/qemu"), "-L", join(root, "usr/share/seabios")],
    ...["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max", "-smp", "2", "-m", `${memoryMiB}`],
    ...["-nodefaults", "-display", "none", "-no-reboot"],
    ...["-serial", `file:${consoleFile}`, "-chardev", "stdio,id=tests,signal=off", "-serial", "chardev:tests"],
    ...["-kernel", kernel, "-initrd", initrd],
    ...["-append", ["console=ttyS0 panic=-1 psi=1 mitigations=off", ...kernelArgs].join(" ")],
    ...(forwards.length === 0 ? [] : networkArgs(forwards)),
    ...disks.flatMap((disk) => ["-drive", `file=${disk},format=raw,if=virtio,cache=unsafe`]),
  ];
}

/** QEMU's own network: the guest reaches the host's 127.0.0.1 as 10.0.2.2. Nothing boots from the card, so it needs no ROM. */
function networkArgs(forwards: NonNullable<GuestMachine["forwards"]>): readonly string[] {
  const ports = forwards.map(({ hostPort, guestPort }) => `hostfwd=tcp:127.0.0.1:${hostPort}-:${guestPort}`);
  return ["-netdev", ["user", "id=net", ...ports].join(), "-device", "virtio-net-pci,netdev=net,romfile="];
}

/** The last lines of the guest's kernel console. */
export async function endOfConsole({ console }: Guest, count = 25): Promise<string> {
  const text = await readFile(console, "utf8").catch(ifAbsent(""));
  return text.trimEnd().split(/\r?\n/).slice(-count).join("\n");
}
