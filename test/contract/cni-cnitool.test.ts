// The same networks executed by `berth cni` and by cnitool, which uses libcni as container runtimes do, leave the same interfaces,
// addresses, routes, rules, results and cache files; and each of both deletes what the other one has added.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { builtBinary } from "../bed/agent.ts";
import { unpackPackages } from "../bed/packages.ts";
import { cniPlugins, cnitoolProgram } from "../upstream/go-program.ts";
import { normalise, readNetworkView } from "./network-view.ts";
import { inMountNamespace } from "./own-namespace.ts";

const what = "networks executed by berth cni and by cnitool are compared";
const reason = cnitoolProgram.skipWithout(what) ?? cniPlugins.skipWithout(what);

const portMappings = [
  { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  { hostPort: 5353, containerPort: 53, protocol: "udp" },
];
const CAPABILITY_ARGS = JSON.stringify({ portMappings, mac: "0a:58:0a:de:03:05" });
const VERSIONS = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

let folder: string;
/** Debian's plugins; those of a newer release for version 1.1.0, which Debian's do not speak. */
let [debianPlugins, newPlugins, binDir] = ["", "", ""];
let cnitool: string;

const bridge = (more: object = {}) => ({
  type: "bridge",
  bridge: "brtest0",
  isGateway: true,
  ipMasq: true,
  hairpinMode: true,
  mtu: 1400,
  ipam: hostLocal([[{ subnet: "10.222.3.0/24" }], [{ subnet: "fd00:222::/64" }]]),
  ...more,
});
const hostLocal = (ranges: readonly object[]) => ({
  type: "host-local",
  dataDir: join(folder, "leases"),
  ranges,
  routes: ranges.length === 1 ? [{ dst: "0.0.0.0/0" }] : [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
});
const portmap = { type: "portmap", capabilities: { portMappings: true }, snat: true };
const tuning = { type: "tuning", capabilities: { mac: true }, sysctl: { "net.ipv4.conf.eth0.arp_filter": "1" } };

const networks: readonly (readonly [what: string, file: string, create: (version: string) => object])[] = [
  ["bridge, host-local and portmap", "10-net.conflist", () => ({ plugins: [bridge(), portmap] })],
  ["three plugins that change the result", "10-net.conflist", () => ({ plugins: [bridge(), tuning, portmap] })],
  ["loopback", "10-net.conflist", () => ({ plugins: [{ type: "loopback" }] })],
  ["a single plugin", "10-net.conf", () => ({ ...bridge(), type: "bridge" })],
  [
    "the best of several versions",
    "10-net.conflist",
    () => ({ cniVersions: ["0.3.0", "1.0.0", "1.1.0", "2.0.0"], plugins: [{ type: "loopback" }] }),
  ],
];

/** A list of a single plugin is as old as a list of several, and `cniVersions` names its versions itself. */
const versionsOf: Readonly<Record<string, readonly string[]>> = {
  "a single plugin": ["0.4.0", "1.0.0", "1.1.0"],
  "the best of several versions": ["1.1.0"],
};

type Executor = "berth" | "cnitool";
type Verb = "add" | "check" | "del";

const CNI_ARGS = "IgnoreUnknown=1;K8S_POD_NAME=web";

/** Runs a verb in the outer network namespace of the test. */
async function run(executor: Executor, verb: Verb, name = "inner") {
  const netns = `/run/netns/${name}`;
  const confDir = join(folder, "net.d");
  const folders = [`--conf-dir=${confDir}`, `--bin-dir=${binDir}`];
  const attachment = [`--netns=${netns}`, `--capability-args=${CAPABILITY_ARGS}`, `--args=${CNI_ARGS}`];
  const argv = {
    berth: [builtBinary, "cni", verb, "net", ...folders, ...attachment, "--output=json"],
    cnitool: [cnitool, verb, "net", netns],
  }[executor];
  const env = { CNI_PATH: binDir, NETCONFPATH: confDir, CAP_ARGS: CAPABILITY_ARGS, CNI_ARGS };
  return await execa("ip", ["netns", "exec", "outer", ...argv], { env, reject: false });
}

/** Runs a verb that concerns no attachment. cnitool wants a network namespace all the same. */
async function runOnNetwork(executor: Executor, verb: "status" | "gc") {
  const confDir = join(folder, "net.d");
  const folders = [
    `--conf-dir=${confDir}`,
    `--bin-dir=${binDir}`,
    "--output=json",
    ...(verb === "gc" ? ["--all"] : []),
  ];
  const argv = {
    berth: [builtBinary, "cni", verb, "net", ...folders],
    cnitool: [cnitool, verb, "net", "/run/netns/any"],
  }[executor];
  const env = { CNI_PATH: binDir, NETCONFPATH: confDir };
  return await execa("ip", ["netns", "exec", "outer", ...argv], { env, reject: false });
}

/** Both network namespaces, as their users see them. */
async function view(): Promise<string> {
  const texts: string[] = [];
  for (const netns of ["inner", "outer"]) texts.push(netns, ...(await readNetworkView("ip", "netns", "exec", netns)));
  return texts.join("\n");
}

/** The result of a plugin. loopback writes no version of an address, which libcni passes on, and Berth does not. */
const parseAdded = (text: string): object =>
  JSON.parse(normalise(text), (key, value: unknown) => (key === "version" ? undefined : value)) as object;

async function cacheFile(): Promise<object> {
  const { stdout } = await execa("find", ["/var/lib/cni/results", "-type", "f"]);
  const files = stdout.split("\n").filter((line) => line !== "");
  expect(files).toEqual([expect.stringMatching(/\/net-cnitool-[0-9a-f]{20}-eth0$/)]);
  const entry = parseAdded(await readFile(files[0]!, "utf8")) as { readonly config: string };
  return { ...entry, config: JSON.parse(Buffer.from(entry.config, "base64").toString()) };
}

interface Course {
  readonly added: unknown;
  readonly view: string;
  readonly cache: unknown;
  readonly checked: number | undefined;
  readonly deleted: number | undefined;
  readonly viewAfter: string;
  readonly left: string;
}

/** Runs `work` with new network namespaces, and removes them and what plugins and executors keep on the disk. */
async function withNamespaces<T>(names: readonly string[], work: () => Promise<T>): Promise<T> {
  for (const name of names) {
    await execa("ip", ["netns", "add", name]);
    // The kernel makes the routes of an IPv6 address when it has checked it for duplicates.
    const file = "/proc/sys/net/ipv6/conf/default/accept_dad";
    await execa("ip", ["netns", "exec", name, "sh", "-c", `echo 0 > ${file}`]);
  }
  try {
    return await work();
  } finally {
    for (const name of names) await execa("ip", ["netns", "del", name]);
    await rm(join(folder, "leases"), { recursive: true, force: true });
    await rm("/var/lib/cni", { recursive: true, force: true });
  }
}

/** ADD, CHECK and DEL of one attachment. */
async function courseOf(adds: Executor, deletes: Executor): Promise<Course> {
  return await withNamespaces(["outer", "inner"], async () => {
    const { stdout, exitCode, stderr } = await run(adds, "add");
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    const before = { added: parseAdded(stdout), view: await view(), cache: await cacheFile() };
    const { exitCode: checked } = await run(deletes, "check");
    const { exitCode: deleted } = await run(deletes, "del");
    const { stdout: left } = await execa("find", ["/var/lib/cni/results", "-type", "f"]);
    return { ...before, checked, deleted, viewAfter: await view(), left };
  });
}

/** Writes the network, and chooses the plugins that speak its version. */
async function putNetwork(file: string, cniVersion: string, fields: object) {
  binDir = cniVersion === "1.1.0" ? newPlugins : debianPlugins;
  await writeFile(join(folder, "net.d", file), JSON.stringify({ cniVersion, name: "net", ...fields }));
}

/** The addresses that host-local has given away. */
async function leases(): Promise<readonly string[]> {
  const names = await readdir(join(folder, "leases", "net"));
  return names.filter((name) => /^\d/.test(name));
}

/** The interfaces of the outer network namespace, but for loopback. */
async function interfaces(): Promise<readonly string[]> {
  const { stdout } = await execa("ip", ["netns", "exec", "outer", "ip", "-brief", "link"]);
  return stdout.split("\n").flatMap((line) => normalise(line).match(/^(?!lo )\S+/)?.[0] ?? []);
}

inMountNamespace(import.meta.path, "networks executed by berth cni and by cnitool", () => {
  describe.skipIf(reason !== undefined)("berth cni and cnitool", () => {
    beforeAll(async () => {
      // cnitool's cache and the names of network namespaces, of this test alone.
      for (const target of ["/run", "/var/lib"]) await execa("mount", ["-t", "tmpfs", "tmpfs", target]);
      folder = await mkdtemp(join(tmpdir(), "berth-cnitool-"));
      await mkdir(join(folder, "net.d"));
      debianPlugins = join((await unpackPackages("bookworm")).root, "usr/lib/cni");
      newPlugins = await cniPlugins.ensure();
      cnitool = await cnitoolProgram.ensure();
    }, 600_000);
    afterAll(() => rm(folder, { recursive: true }));

    for (const [what, file, create] of networks)
      for (const cniVersion of versionsOf[what] ?? VERSIONS)
        test(`leave the same of ${what} with version ${cniVersion}`, async () => {
          await putNetwork(file, cniVersion, create(cniVersion));
          try {
            const expected = await courseOf("cnitool", "cnitool");
            expect(expected).toMatchObject({ deleted: 0, left: "" });
            expect(await courseOf("berth", "berth")).toEqual(expected);
            // What one reads of the other's cache does not depend on the version.
            if (cniVersion !== "1.0.0" && cniVersion !== "1.1.0") return;
            expect(await courseOf("berth", "cnitool")).toEqual(expected);
            expect(await courseOf("cnitool", "berth")).toEqual(expected);
          } finally {
            await rm(join(folder, "net.d", file));
          }
        }, 600_000);

    test("answer STATUS alike, and GC of attachments whose namespaces are gone leaves the same", async () => {
      await putNetwork("10-net.conflist", "1.1.0", { plugins: [bridge(), portmap] });
      const collected = async (executor: Executor) =>
        await withNamespaces(["outer"], async () => {
          const status = await runOnNetwork(executor, "status");
          for (const name of ["first", "second"]) {
            await execa("ip", ["netns", "add", name]);
            expect(await run(executor, "add", name)).toMatchObject({ exitCode: 0 });
          }
          expect((await leases()).length).toBe(2);
          for (const name of ["first", "second"]) await execa("ip", ["netns", "del", name]);
          const gc = await runOnNetwork(executor, "gc");
          const { stdout: cached } = await execa("find", ["/var/lib/cni/results", "-type", "f"]);
          const outer = await readNetworkView("ip", "netns", "exec", "outer");
          // Berth also names the state of each plugin.
          if (executor === "berth") expect(JSON.parse(status.stdout)).toMatchObject({ isReady: true });
          return { exitCodes: [status.exitCode, gc.exitCode], cached, leases: await leases(), outer };
        });
      const expected = await collected("cnitool");
      expect(expected).toMatchObject({ exitCodes: [0, 0], cached: "", leases: [] });
      expect(await collected("berth")).toEqual(expected);
    }, 600_000);

    const oneAddress = [[{ subnet: "10.222.3.0/24", rangeStart: "10.222.3.2", rangeEnd: "10.222.3.2" }]];

    test("a range without a free address is the plugin's own error, and nothing of the attachment stays", async () => {
      await putNetwork("10-net.conflist", "1.0.0", { plugins: [bridge({ ipam: hostLocal(oneAddress) }), portmap] });
      await withNamespaces(["outer", "inner", "second"], async () => {
        expect((await run("berth", "add")).exitCode).toBe(0);
        const { exitCode, stderr } = await run("berth", "add", "second");
        expect({ exitCode, stderr }).toEqual({
          exitCode: 1,
          stderr: expect.stringMatching(
            /berth cni: bridge: .*no IP addresses available in range set: 10.222.3.2-10.222.3.2/,
          ),
        });
        expect([await leases(), await interfaces()]).toEqual([["10.222.3.2"], ["brtest0", "vethN"]]);
        expect((await run("berth", "del")).exitCode).toBe(0);
        expect((await run("berth", "add", "second")).exitCode).toBe(0);
      });
    }, 600_000);

    test("a bridge that has another address is the plugin's own error, and its address is given back", async () => {
      await putNetwork("10-net.conflist", "1.0.0", { plugins: [bridge({ ipam: hostLocal(oneAddress) })] });
      await withNamespaces(["outer", "inner"], async () => {
        const inOuter = ["netns", "exec", "outer", "ip"];
        await execa("ip", [...inOuter, "link", "add", "brtest0", "type", "bridge"]);
        await execa("ip", [...inOuter, "address", "add", "10.222.3.9/24", "dev", "brtest0"]);
        const { exitCode, stderr } = await run("berth", "add");
        expect({ exitCode, stderr }).toEqual({
          exitCode: 1,
          stderr: expect.stringMatching(
            /berth cni: bridge: .*"brtest0" already has an IP address different from 10.222.3.1/,
          ),
        });
        expect([await leases(), await interfaces()]).toEqual([[], ["brtest0"]]);
      });
    }, 600_000);
  });
});
