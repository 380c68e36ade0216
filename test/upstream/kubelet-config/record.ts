// Asks a kubelet, and writes down what it says: bun test/upstream/kubelet-config/record.ts <path of a kubelet 1.36>
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { commandLines, files } from "./rows.ts";

const golden = join(import.meta.dirname, "../../golden");
const kubelet = process.argv[2];
if (kubelet === undefined) throw new Error("give the path of a kubelet 1.36");
const folder = await mkdtemp(join(tmpdir(), "kubelet-config-"));
try {
  await Bun.write(join(golden, "kubelet-acceptance.json"), `${JSON.stringify(await askAll(kubelet), undefined, 1)}\n`);
  await Bun.write(join(golden, "kubelet-flags.txt"), flagsOf(run([kubelet, "--help"])));
} finally {
  await rm(folder, { recursive: true });
}

async function askAll(program: string) {
  const path = join(folder, "config.yaml");
  const places = ["--root-dir", join(folder, "root"), "--cert-dir", join(folder, "pki")];
  // The kubelet looks at the TLS version right after it has accepted its configuration, before it touches the machine.
  const ending = "failCgroupV1: false\ntlsCertFile: /none\ntlsPrivateKeyFile: /none\ntlsMinVersion: none\n";
  const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
  const byFile = [];
  for (const text of files) {
    await Bun.write(path, `${head}${ending}${text}\n`);
    byFile.push({ text, accepted: isAccepted(run([program, "--config", path, ...places])) });
  }
  const endingFlags = [
    "--fail-cgroupv1=false",
    "--tls-min-version=none",
    "--tls-cert-file=/none",
    "--tls-private-key-file=/none",
  ];
  const byFlags = commandLines.map((argv) => ({
    argv,
    accepted: isAccepted(run([program, ...places, ...endingFlags, ...argv])),
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

/** One flag a line: with the word for what it takes (a switch takes none), and whether it is deprecated. */
function flagsOf(help: string): string {
  const entries = help.split(/^(?= {2,6}(?:-\w, )?--)/m).slice(1);
  return entries
    .map((entry) => {
      const [, shorthand, name, type = "bool"] = /^ +(?:-(\w), )?--([\w-]+)(?: (\S+))?(?: {3,}|$)/m.exec(entry) ?? [];
      const ending = entry.includes("(DEPRECATED: ") ? " deprecated" : "";
      return `${shorthand ? `-${shorthand}, ` : ""}--${name} ${type}${ending}\n`;
    })
    .join("");
}
