import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { apart } from "../bed/cleanup/processes.ts";
import type { Image, OwnPrograms } from "./image.ts";

/** A guest that runs, or has run. */
export interface Guest {
  readonly pid: number;
  /** What its tests say, line by line, until it is off. */
  readonly lines: AsyncIterable<string>;
  /** Resolves when it is off, with how that came about. */
  readonly ended: Promise<string>;
  /** The file with what its kernel has said. */
  readonly console: string;
  /** Ends it at once, and returns when it has ended. */
  end(why: string): Promise<void>;
}

/**
 * Boots a guest, emulated: a processor that can run one by itself is not everywhere, and where it seems to be it may hang. Its console
 * and what its tests say go to files of `folder`. It is off after `limitMs` at the latest, and with this process, however that ends.
 */
export function boot(image: Image, programs: OwnPrograms, folder: string, limitMs: number): Guest {
  const consoleFile = join(folder, "console.log");
  const [program, ...args] = programs.argv("usr/bin/qemu-system-x86_64", qemuArgs(image, programs.root, consoleFile));
  const dieWithUs = ["--pdeathsig", "KILL", "--", program, ...args];
  const child = spawn("setpriv", dieWithUs, { ...apart, stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.pipe(createWriteStream(join(folder, "result.log")));
  let words = "";
  child.stderr.on("data", (chunk: Buffer) => (words = `${words}${chunk}`.slice(-2000)));
  let reason: string | undefined;
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(`it could not be started: ${error.message}`));
    child.once("close", (code, signal) =>
      resolve(reason ?? (code === 0 ? "it is off" : `QEMU ended with ${signal ?? `code ${code}`}: ${words.trim()}`)),
    );
  });
  const end = async (why: string) => {
    reason ??= why;
    child.kill("SIGKILL");
    await ended;
  };
  const limit = setTimeout(() => void end(`it was ended after ${limitMs / 60_000} minutes`), limitMs);
  void ended.then(() => clearTimeout(limit));
  return { pid: child.pid ?? 0, lines: createInterface({ input: child.stdout }), ended, console: consoleFile, end };
}

function qemuArgs({ kernel, initrd, disks }: Image, root: string, consoleFile: string): readonly string[] {
  return [
    ...["-L", join(root, "usr/share/qemu"), "-L", join(root, "usr/share/seabios")],
    ...["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max", "-smp", "2", "-m", "1024"],
    ...["-nodefaults", "-display", "none", "-no-reboot"],
    ...["-serial", `file:${consoleFile}`, "-chardev", "stdio,id=tests,signal=off", "-serial", "chardev:tests"],
    ...["-kernel", kernel, "-initrd", initrd],
    ...["-append", "console=ttyS0 panic=-1 psi=1 mitigations=off"],
    ...disks.flatMap((disk) => ["-drive", `file=${disk},format=raw,if=virtio,cache=unsafe`]),
  ];
}

/** The last lines of what the guest's kernel has said. */
export async function endOfConsole({ console }: Guest, count = 25): Promise<string> {
  const text = await readFile(console, "utf8").catch(() => "");
  return text.trimEnd().split(/\r?\n/).slice(-count).join("\n");
}
