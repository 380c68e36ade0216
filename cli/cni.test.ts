import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { takeLock } from "../host/lock.ts";
import { type CommandLines, startCommandLines } from "../test/command-lines.ts";
import { scriptedCalls, writePlugin } from "../test/fakes/scripted-plugin.ts";

const program = join(import.meta.dirname, "main.ts");
/** Any network namespace will do: the scripted plugins change nothing. */
const NETNS = "/proc/self/ns/net";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-cli-cni-"));
  for (const name of ["net.d", "bin"]) await mkdir(join(folder, name));
});
afterEach(() => rm(folder, { recursive: true }));

let lines: CommandLines;
beforeAll(() => {
  lines = startCommandLines();
});
afterAll(() => lines.stop());

async function cni(...args: readonly string[]) {
  const folders = [
    `--conf-dir=${folder}/net.d`,
    `--bin-dir=${folder}/none:${folder}/bin`,
    `--cache-dir=${folder}/cache`,
  ];
  const { stdout, stderr, exitCode } = await lines.run(["cni", ...args, ...folders]);
  return { stdout: stdout.replaceAll(folder, "DIR"), stderr: stderr.replaceAll(folder, "DIR"), exitCode };
}

const result = {
  cniVersion: "1.1.0",
  interfaces: [{ name: "cni0" }, { name: "eth0", mac: "0a:58:0a:01:00:05", sandbox: NETNS }],
  ips: [{ address: "10.1.0.5/16", gateway: "10.1.0.1", interface: 1 }],
  routes: [{ dst: "0.0.0.0/0" }],
};
const versions = JSON.stringify({ cniVersion: "1.1.0", supportedVersions: ["1.0.0", "1.1.0"] });
const answers = { ADD: { stdout: JSON.stringify(result) }, VERSION: { stdout: versions } };

const putNetwork = (fields: object = {}) =>
  writeFile(
    join(folder, "net.d", "10-pods.conflist"),
    JSON.stringify({
      cniVersion: "1.1.0",
      name: "pods",
      plugins: [{ type: "bridge", capabilities: { mac: true } }],
      ...fields,
    }),
  );
const calls = async () =>
  (await scriptedCalls(join(folder, "bin"))).map(({ verb, containerId }) => `${verb} ${containerId}`);

test("an attachment is added, listed, checked and deleted", async () => {
  await putNetwork();
  await writePlugin(join(folder, "bin"), "bridge", answers);
  const added = await cni(
    "add",
    "--netns",
    NETNS,
    "--container-id=web",
    "--args=A=b",
    '--capability-args={"mac":"0a:58:0a:01:00:05"}',
  );
  expect({ ...added, stdout: added.stdout.replace(/\d+\.\d ms/, "N ms") }).toEqual({
    stdout: `INTERFACE  MAC                WHERE      ADDRESSES
cni0       -                  host       -
eth0       0a:58:0a:01:00:05  container  10.1.0.5/16 via 10.1.0.1
route to 0.0.0.0/0
eth0 of web in the network pods is attached: bridge N ms
`,
    stderr: "",
    exitCode: 0,
  });
  expect(await scriptedCalls(join(folder, "bin"))).toMatchObject([
    {
      verb: "ADD",
      containerId: "web",
      netns: NETNS,
      ifName: "eth0",
      args: "A=b",
      conf: { runtimeConfig: { mac: "0a:58:0a:01:00:05" } },
    },
  ]);
  expect(await cni("list")).toEqual({
    stdout: `FILE              NETWORK  VERSION  ATTACHMENTS  PLUGINS
10-pods.conflist  pods     1.1.0    1            bridge

NETWORK  POD  INTERFACE  NETNS   MADE BY          CONTAINER
pods     -    eth0       in use  another program  web
`,
    stderr: "",
    exitCode: 0,
  });
  const again = await cni("add", "pods", "--netns", NETNS, "--container-id=web");
  expect(again.stdout).toEndWith(
    "eth0 of web in the network pods is attached already, by an earlier add; del removes it\n",
  );
  expect(JSON.parse((await cni("add", "--netns", NETNS, "--container-id=web", "-o", "json")).stdout)).toEqual(result);
  const checked = await cni("check", "--netns", NETNS, "--container-id=web");
  expect(checked).toMatchObject({ stderr: "", exitCode: 0 });
  expect(checked.stdout).toMatch(/^eth0 of web in the network pods still is as add has made it: bridge [\d.]+ ms\n$/);
  await rm(join(folder, "net.d", "10-pods.conflist"));
  const deleted = await cni("del", "pods", "--container-id=web");
  expect(deleted).toMatchObject({ stderr: "", exitCode: 0 });
  expect(deleted.stdout).toMatch(/^eth0 of web in the network pods is removed: bridge [\d.]+ ms\n$/);
  expect(await calls()).toEqual(["ADD web", "CHECK web", "DEL web"]);
  expect(await readdir(join(folder, "cache", "results"))).toEqual([]);
});

test("a call that waits for a lock names its holder, and goes on when the lock is free", async () => {
  await putNetwork();
  await writePlugin(join(folder, "bin"), "bridge", answers);
  await mkdir(join(folder, "cache/locks"), { recursive: true });
  const lock = takeLock(join(folder, "cache/locks/.pods"), "a test");
  const folders = [`--conf-dir=${folder}/net.d`, `--bin-dir=${folder}/bin`, `--cache-dir=${folder}/cache`];
  const argv = [process.execPath, program, "cni", "add", "--netns", NETNS, "--container-id=web", ...folders];
  const call = Bun.spawn(argv, { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
  const errors = call.stderr.getReader();
  const { value } = await errors.read();
  expect(new TextDecoder().decode(value)).toMatch(
    new RegExp(`^berth cni waits: pid ${process.pid} \\(.+\\) has locked the network pods since [-\\d:TZ]+\n$`),
  );
  expect(await calls()).toEqual([]);
  if (lock.held) lock.release();
  expect([await call.exited, (await errors.read()).done, await calls()]).toEqual([0, true, ["ADD web"]]);
});

test("the list has the pods for which a container runtime has made attachments", async () => {
  await putNetwork();
  await writePlugin(join(folder, "bin"), "bridge", answers);
  const args = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=3f2a";
  await cni("add", "--netns", NETNS, "--container-id=3f2a", `--args=${args}`);
  await cni("add", "--netns", NETNS, "--container-id=by-hand");
  const lines = (await cni("list")).stdout.split("\n").map((line) => line.split(/ +/));
  expect(lines).toContainEqual(["pods", "shop/web-0", "eth0", "in", "use", "a", "container", "runtime", "3f2a"]);
  expect(lines).toContainEqual(["pods", "-", "eth0", "in", "use", "another", "program", "by-hand"]);
  const { attachments } = JSON.parse((await cni("list", "-o", "json")).stdout);
  const key = { network: "pods", ifName: "eth0", netns: NETNS, netnsState: "in use" };
  const pod = { namespace: "shop", name: "web-0" };
  expect(attachments).toContainEqual({ ...key, containerId: "3f2a", pod, madeBy: "runtime" });
  expect(attachments).toContainEqual({ ...key, containerId: "by-hand", madeBy: "other" });
});

test("the plugin's own words, its code and its log are the error", async () => {
  await putNetwork();
  const stdout = JSON.stringify({ code: 100, msg: "no address left", details: "10.1.0.0/30" });
  await writePlugin(join(folder, "bin"), "bridge", { ADD: { stdout, stderr: "its log\n", exitCode: 1 } });
  expect(await cni("add", "--netns", NETNS, "--container-id=web")).toEqual({
    stdout: "",
    stderr: "its log\nberth cni: bridge: no address left: 10.1.0.0/30 (code 100)\n",
    exitCode: 1,
  });
  expect(await calls()).toEqual(["ADD web", "DEL web"]);
});

test("gc keeps the attachments whose network namespace exists, and removes the others", async () => {
  await putNetwork();
  await writePlugin(join(folder, "bin"), "bridge", answers);
  await cni("add", "--netns", NETNS, "--container-id=kept");
  await cni("add", "--netns", NETNS, "--container-id=gone");
  const file = join(folder, "cache", "results", "pods-gone-eth0");
  await writeFile(file, (await Bun.file(file).text()).replace(NETNS, "/run/netns/gone"));
  const listed = (await cni("list")).stdout;
  expect(listed).toMatch(/^pods +- +eth0 +gone +another program +gone$/m);
  expect(listed).toEndWith(
    "\nberth cni gc pods --conf-dir DIR/net.d --bin-dir DIR/none:DIR/bin --cache-dir DIR/cache deletes the attachments of the network pods whose network namespace is gone\n",
  );
  expect(await cni("gc")).toEqual({
    stdout:
      "NETWORK  CONTAINER  INTERFACE\npods     gone       eth0\npods: 1 attachment deleted, whose network namespace is gone; 1 in use\n",
    stderr: "",
    exitCode: 0,
  });
  const [, , del, gc] = await scriptedCalls(join(folder, "bin"));
  expect([del, gc]).toMatchObject([
    { verb: "DEL", containerId: "gone" },
    { verb: "GC", conf: { "cni.dev/valid-attachments": [{ containerID: "kept", ifname: "eth0" }] } },
  ]);
});

test("gc with a cache that has no attachment of the network needs --all", async () => {
  await putNetwork();
  await writePlugin(join(folder, "bin"), "bridge", answers);
  expect(await cni("gc")).toEqual({
    stdout: "",
    stderr:
      "berth cni: DIR/cache has no attachment of pods, so its plugins would release all that they hold; --all does so (code 4)\n",
    exitCode: 1,
  });
  expect(await calls()).toEqual([]);
  expect(await cni("gc", "--all")).toEqual({
    stdout: "pods: no attachment deleted, 0 in use\n",
    stderr: "",
    exitCode: 0,
  });
  expect(await calls()).toEqual(["GC "]);
});

test("status says which binary is missing, which version a plugin does not speak, and what STATUS answers", async () => {
  await putNetwork({ plugins: [{ type: "bridge", ipam: { type: "host-local" } }] });
  await writePlugin(join(folder, "bin"), "bridge", answers);
  const missing = await cni("status");
  expect({ ...missing, stdout: missing.stdout.replaceAll(/ {2,}/g, " | ") }).toEqual({
    stdout: `PLUGIN | BINARY | VERSIONS | STATE
bridge | DIR/bin/bridge | 1.0.0 1.1.0 | ok
host-local | - | - | its binary is in none of the folders DIR/none, DIR/bin (code 50)

pods: not ready: a plugin cannot be used
`,
    stderr: "",
    exitCode: 1,
  });
  await writePlugin(join(folder, "bin"), "host-local", { VERSION: { stdout: versions.replace(',"1.1.0"', "") } });
  expect((await cni("status")).stdout).toMatch(/DIR\/bin\/host-local +1\.0\.0 +does not speak 1\.1\.0\n/);
  await writePlugin(join(folder, "bin"), "host-local", answers);
  expect(await cni("status")).toMatchObject({ stdout: expect.stringMatching(/pods: ready\n$/), exitCode: 0 });
  const full = JSON.stringify({ code: 50, msg: "no address left" });
  await writePlugin(join(folder, "bin"), "bridge", { ...answers, STATUS: { stdout: full, exitCode: 1 } });
  expect(await cni("status")).toMatchObject({
    stdout: expect.stringMatching(/pods: not ready: bridge: no address left \(code 50\)\n$/),
    exitCode: 1,
  });
});

test("files that are no network are listed with their problem", async () => {
  await putNetwork();
  await writeFile(join(folder, "net.d", "05-broken.conf"), "{");
  expect(await cni("list")).toEqual({
    stdout: `FILE              NETWORK  VERSION  ATTACHMENTS  PLUGINS
05-broken.conf    -        -        -            DIR/net.d/05-broken.conf is not JSON: Expected '}'
10-pods.conflist  pods     1.1.0    0            bridge
`,
    stderr: "",
    exitCode: 1,
  });
  expect(await cni("status")).toEqual({
    stdout: "",
    stderr: "berth cni: DIR/net.d/05-broken.conf is not JSON: Expected '}' (code 6)\n",
    exitCode: 1,
  });
});

test("a path that is no network namespace is refused before a plugin is called", async () => {
  await putNetwork();
  await writePlugin(join(folder, "bin"), "bridge", answers);
  expect(await cni("add", "--netns=/run/netns/nowhere")).toMatchObject({
    stderr: "berth cni: --netns: /run/netns/nowhere is no network namespace; ip netns add NAME makes one (code 8)\n",
    exitCode: 1,
  });
  expect(await calls()).toEqual([]);
});

test("an interrupt kills the plugin and ends the command", async () => {
  await putNetwork();
  await writePlugin(join(folder, "bin"), "bridge", { ADD: { before: "sleep 60" } });
  const folders = [`--conf-dir=${folder}/net.d`, `--bin-dir=${folder}/bin`, `--cache-dir=${folder}/cache`];
  const argv = [process.execPath, program, "cni", "add", "--netns", NETNS, ...folders];
  const child = Bun.spawn(argv, { stdout: "pipe", stderr: "pipe" });
  while ((await calls()).length === 0) await Bun.sleep(20);
  child.kill("SIGINT");
  expect([await child.exited, await child.stderr.text()]).toEqual([
    130,
    "berth cni: interrupted; berth cni del removes what was made\n",
  ]);
});

test("a verb that a network disables, or that its version does not have, says so", async () => {
  await putNetwork({ cniVersion: "1.0.0", disableCheck: true });
  await writePlugin(join(folder, "bin"), "bridge", answers);
  await cni("add", "--netns", NETNS, "--container-id=web");
  const [checked, collected, status] = [
    await cni("check", "--netns", NETNS, "--container-id=web"),
    await cni("gc"),
    await cni("status"),
  ];
  expect(checked.stdout).toBe("nothing was checked: the network pods has disableCheck\n");
  expect(collected.stdout).toBe(
    "pods: no attachment deleted, 1 in use; its cniVersion 1.0.0 has no GC, so what plugins keep of others stays\n",
  );
  expect(status.stdout).toEndWith(
    "pods: its plugins can be used; cniVersion 1.0.0 has no STATUS, so they were not asked whether they can serve add\n",
  );
  await putNetwork({ disableGC: true });
  expect((await cni("gc")).stdout).toBe("nothing was collected: the network pods has disableGC\n");
});

test("del of an attachment that the cache does not have says so, and calls the plugins", async () => {
  await putNetwork();
  await writePlugin(join(folder, "bin"), "bridge", answers);
  const { stdout, exitCode } = await cni("del", "--netns", NETNS, "--container-id=wbe");
  expect(stdout).toMatch(
    /^eth0 of wbe in the network pods is not in the cache; its plugins were called all the same: bridge [\d.]+ ms\n$/,
  );
  expect([exitCode, await calls()]).toEqual([0, ["DEL wbe"]]);
});
