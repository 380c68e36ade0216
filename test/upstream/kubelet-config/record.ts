// Records which configurations and command lines of rows.ts a kubelet accepts, and its flags:
// bun test/upstream/kubelet-config/record.ts <path of a kubelet 1.36>
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { commandLines, files } from "./rows.ts";

const golden = join(import.meta.dirname, "../../golden");
const kubelet = process.argv[2];
if (kubelet === undefined)
  throw new Error("usage: bun test/upstream/kubelet-config/record.ts <path of a kubelet 1.36>");
const folder = await mkdtemp(join(tmpdir(), "kubelet-config-"));
try {
  await Bun.write(
    join(golden, "kubelet-acceptance.json"),
    `${JSON.stringify(await recordAcceptance(kubelet), undefined, 1)}\n`,
  );
  await Bun.write(join(golden, "kubelet-flags.txt"), flagsOf(run([kubelet, "--help"])));
} finally {
  await rm(folder, { recursive: true });
}

async function recordAcceptance(program: string) {
  const path = join(folder, "config.yaml");
  const directoryFlags = ["--root-dir", join(folder, "root"), "--cert-dir", join(folder, "pki")];
  // The kubelet checks the TLS version right after it has accepted its configuration, before it touches the machine, so
  // an invalid version stops it there.
  const stopSettings = "failCgroupV1: false\ntlsCertFile: /none\ntlsPrivateKeyFile: /none\ntlsMinVersion: none\n";
  const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
  const byFile = [];
  for (const text of files) {
    await Bun.write(path, `${head}${stopSettings}${text}\n`);
    byFile.push({ text, accepted: isAccepted(run([program, "--config", path, ...directoryFlags])) });
  }
  const stopFlags = [
    "--fail-cgroupv1=false",
    "--tls-min-version=none",
    "--tls-cert-file=/none",
    "--tls-private-key-file=/none",
  ];
  const byFlags = commandLines.map((argv) => ({
    argv,
    accepted: isAccepted(run([program, ...directoryFlags, ...stopFlags, ...argv])),
  }));
  return { files: byFile, commandLines: byFlags };
}

function isAccepted(output: string): boolean {
  return output.includes('unknown tls version \\"none\\"');
}

function run(argv: readonly string[]): string {
  const { stdout, stderr } = Bun.spawnSync([...argv], { timeout: 10_000, stdout: "pipe", stderr: "pipe" });
  return `${stdout}${stderr}`;
}

/** One flag per line, with the type of its value and whether it is deprecated. */
function flagsOf(help: string): string {
  const entries = help.split(/^(?= {2,6}(?:-\w, )?--)/m).slice(1);
  return entries
    .map((entry) => {
      const [, shorthand, name, type = "bool"] = /^ +(?:-(\w), )?--([\w-]+)(?: (\S+))?(?: {3,}|$)/m.exec(entry) ?? [];
      const stopSettings = entry.includes("(DEPRECATED: ") ? " deprecated" : "";
      return `${shorthand ? `-${shorthand}, ` : ""}--${name} ${type}${stopSettings}\n`;
    })
    .join("");
}
