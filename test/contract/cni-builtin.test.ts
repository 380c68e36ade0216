// `berth cni` with the built-in network, in namespaces of its own: the executor hands the calls to the plugin in this process.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: berth cni with the built-in network, since only root may make network namespaces");

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-cni-builtin-"));
  const plugin = { type: "berth", ranges: [[{ subnet: "10.222.4.0/24" }]], capabilities: { portMappings: true } };
  const list = { cniVersion: "1.1.0", name: "pods", plugins: [plugin] };
  await writeFile(join(folder, "10-pods.conflist"), JSON.stringify(list));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Adds, checks and deletes; what the kernel and the record have is shown between. Its /run is empty. */
const SCRIPT = `set -e
mount -t tmpfs tmpfs /run
ip netns add blue
berth() { "$BUN" cli/main.ts cni "$@" --conf-dir "$FOLDER" --cache-dir "$FOLDER/cache" -o json; }
berth status
berth add --netns /run/netns/blue --capability-args '{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}'
berth check --netns /run/netns/blue
ip -n blue -o -4 addr show eth0
ip -n blue route
ls /run/berth/network/pods/addresses
berth del --netns /run/netns/blue
ip -n blue -o link show eth0 2>&1 || true
ls /run/berth/network/pods/addresses
`;

test.skipIf(!isRoot)(
  "berth cni adds, checks and deletes an attachment of the built-in network",
  async () => {
    const env = { BUN: process.execPath, FOLDER: folder };
    const argv = ["--net", "--mount", "--propagation", "private", "sh", "-c", SCRIPT];
    const { stdout } = await execa("unshare", argv, { env, all: true });
    expect(stdout).toContain("inet 10.222.4.2/24 brd 10.222.4.255 scope global eth0");
    expect(stdout).toContain("default via 10.222.4.1 dev eth0");
    expect(stdout.match(/^10\.222\.4\.2$/gm)).toHaveLength(1);
    expect(stdout).toContain('Device "eth0" does not exist.');
  },
  240_000,
);

/** The ranges come from the runtime alone. What must hold at each step is in the output. */
const SCRIPT_OF_RUNTIME_RANGES = `set -e
mount -t tmpfs tmpfs /run
ip netns add blue
mkdir "$FOLDER/of-runtime"
echo '{"cniVersion":"1.1.0","name":"pods","plugins":[{"type":"berth","capabilities":{"ipRanges":true}}]}' > "$FOLDER/of-runtime/10.conflist"
berth() { "$BUN" cli/main.ts cni "$@" --conf-dir "$FOLDER/of-runtime" --cache-dir "$FOLDER/of-runtime/cache" -o json; }
berth status | grep -c '"isReady":true'
berth add --netns /run/netns/blue 2>&1 || true
berth add --netns /run/netns/blue --capability-args '{"ipRanges":[[{"subnet":"10.222.6.0/24"}]]}' | grep -o 10.222.6.2/24
berth check --netns /run/netns/blue
berth gc
ip -o -4 addr show berth0
berth check --netns /run/netns/blue
berth del --netns /run/netns/blue
echo "left: $(ls /run/berth/network/pods/addresses)"
`;

test.skipIf(!isRoot)(
  "a list of the built-in network may leave its ranges to the runtime",
  async () => {
    const env = { BUN: process.execPath, FOLDER: folder };
    const argv = ["--net", "--mount", "--propagation", "private", "sh", "-c", SCRIPT_OF_RUNTIME_RANGES];
    const { stdout } = await execa("unshare", argv, { env, all: true });
    const lines = stdout.split("\n").map((line) => line.replaceAll(/ +/g, " "));
    expect(lines).toEqual([
      "1",
      expect.stringContaining("ranges is undefined; sets such as"),
      "10.222.6.2/24",
      '{"outcome":"checked"}',
      expect.stringContaining('"deleted":[],"inUse":[{"network":"pods"'),
      expect.stringContaining("inet 10.222.6.1/24"),
      '{"outcome":"checked"}',
      "{}",
      "left: ",
    ]);
  },
  240_000,
);
