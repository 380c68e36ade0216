import { request } from "node:http";
import { pollUntil } from "../../bed/poll-until.ts";
import { pickPorts } from "../../bed/ports.ts";
import { boot, endOfConsole, type Guest } from "../boot.ts";
import { berthFolder } from "../guest-paths.ts";
import { unpackPrograms } from "../host-programs.ts";
import { makeNodeImage, type NodeOptions } from "./node-image.ts";
import { createRunFolder } from "./run-folder.ts";
import { kubeletPort, shellPort } from "./system-files.ts";

const minuteMs = 60_000;
/** An emulated processor is about twenty times slower than the host's, which may be busy too. */
const BOOT_TIMEOUT_MS = 10 * minuteMs;
const SCRIPT_TIMEOUT_MS = 5 * minuteMs;
/** As long as the longest of the extended suites. */
const RUN_TIMEOUT_MS = 180 * minuteMs;

/** 2 MiB pages that the kernel sets aside at its start, for pods that request some. */
const hugePages = 16;

/** A booted node with systemd and containerd. Its agents do not run yet. */
export interface GuestNode {
  /**
   * Runs a script of busybox' shell as root, until the first command that fails. Returns its output without the last
   * line break; throws with the output if it fails, and after `limitMs`.
   */
  run(script: string, limitMs?: number): Promise<string>;
  /** The port of the host's 127.0.0.1 that leads to the API of its agent. */
  readonly agentPort: number;
  /** Powers it off at once and removes its disks. */
  end(): Promise<void>;
}

/** Boots a node and returns once containerd runs and has the images of the tests. */
export async function bootNode(options: NodeOptions, print: (line: string) => void): Promise<GuestNode> {
  const folder = await createRunFolder("berth-vm-node-");
  try {
    const programs = await unpackPrograms(print);
    const image = await makeNodeImage(folder.path, programs, options, print);
    const [hostPort = 0, agentPort = 0] = await pickPorts(2);
    const forwards = [
      { hostPort, guestPort: shellPort },
      { hostPort: agentPort, guestPort: kubeletPort },
    ];
    const machine = { memoryMiB: 3072, kernelArgs, forwards };
    const guest = boot(image, { machine, programs, folder: folder.path, limitMs: RUN_TIMEOUT_MS });
    const run: GuestNode["run"] = (script, limitMs = SCRIPT_TIMEOUT_MS) => runScript(hostPort, script, limitMs);
    const end = async () => {
      await guest.kill("it is no longer needed");
      await folder.remove();
    };
    try {
      await untilReady(guest, run);
      return { run, agentPort, end };
    } catch (cause) {
      const consoleLines = await endOfConsole(guest);
      await end();
      throw new Error(`${(cause as Error).message}; the end of the guest's console:\n${consoleLines}`, { cause });
    }
  } catch (error) {
    await folder.remove();
    throw error;
  }
}

/** Without udev the network card keeps its name. No getty waits for the serial port. */
const kernelArgs = ["net.ifnames=0", "systemd.getty_auto=no", "hugepagesz=2M", `hugepages=${hugePages}`];

async function untilReady(guest: Guest, run: GuestNode["run"]): Promise<void> {
  let hasEnded = false;
  void guest.ended.then(() => (hasEnded = true));
  // It refuses connections until it has booted.
  const answers = () =>
    run("true", 5000).then(
      () => true,
      () => false,
    );
  await pollUntil(
    "an answer of the guest",
    BOOT_TIMEOUT_MS,
    async () => {
      if (hasEnded) throw new Error(`the guest has ended: ${await guest.ended}`);
      return await answers();
    },
    500,
  );
  await run("until systemctl --quiet is-active containerd; do sleep 0.5; done");
  await run(`ctr -n k8s.io images import ${berthFolder}/images.tar`);
}

async function runScript(hostPort: number, script: string, limitMs: number): Promise<string> {
  const answer = await post(`http://127.0.0.1:${hostPort}/cgi-bin/run`, script, limitMs);
  const [, output = "", code] = /^(.*)\nexit (\d+)$/s.exec(answer) ?? [];
  if (code === undefined) throw new Error(`the guest's answer to a script is incomplete: ${answer.slice(-500)}`);
  if (code !== "0")
    throw new Error(`a script of the guest exited with code ${code}: ${script}\n${output.slice(-2000)}`);
  return output.trimEnd();
}

/** Sends one request on a new connection, without a proxy. */
async function post(url: string, body: string, limitMs: number): Promise<string> {
  return await new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(limitMs);
    const outgoing = request(url, { method: "POST", agent: false, signal }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => (text += chunk));
      answer.on("end", () => resolve(text));
      answer.on("error", reject);
    });
    outgoing.on("error", reject);
    outgoing.setHeader("Content-Length", Buffer.byteLength(body));
    outgoing.end(body);
  });
}
