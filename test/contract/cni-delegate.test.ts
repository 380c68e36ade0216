// The delegate as a container runtime calls it, with the built-in network in namespaces of its own: with an agent, without one,
// and with one that is stopped or killed.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import type { NetworkSource } from "../../agent/config/config.ts";
import { YOUNG_FOR_MS } from "../../cni/attachment-state.ts";
import { formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { type DelegateForm, delegateForms } from "./delegate-forms.ts";
import { inMountNamespace } from "./own-namespace.ts";

const agentProcess = join(import.meta.dirname, "network-process.ts");
const inOuter = ["netns", "exec", "outer"];
const TIMEOUT_MS = 3_000;
const namespaces = ["outer", "inner", "second"];

const forms = await delegateForms();

let form: DelegateForm;
let folder: string;
let agent: Bun.Subprocess<"ignore", "pipe", "inherit"> | undefined;

const conf = (timeoutMs: number) => ({
  socket: join(folder, "root/cni.sock"),
  confDir: join(folder, "net.d"),
  binDirs: [join(folder, "bin")],
  cacheDir: join(folder, "cache"),
  timeoutMs,
});

interface AgentProcess {
  /** Default: the list of the folder. */
  readonly source?: NetworkSource;
  /** The ready sandboxes of its runtime; none is ever listed if they are not given. */
  readonly sandboxes?: readonly string[];
}

async function startAgent({ source = "chain", sandboxes = [] }: AgentProcess = {}) {
  const folders = [join(folder, "root"), join(folder, "runtime.d")];
  const listed = sandboxes.length === 0 ? [] : [sandboxes.join(",")];
  const argv = ["ip", ...inOuter, process.execPath, agentProcess, ...folders, source, ...listed];
  agent = Bun.spawn(argv, { stdout: "pipe", stderr: "inherit", stdin: "ignore" });
  const { value } = await agent.stdout.getReader().read();
  expect(new TextDecoder().decode(value)).toBe("served\n");
  return agent;
}

async function killAgent() {
  agent?.kill("SIGKILL");
  await agent?.exited;
  agent = undefined;
}

async function putChain(fields: object, ...after: readonly object[]) {
  const ranges = [[{ subnet: "10.222.5.0/24" }]];
  // Another bridge than that of `--network=builtin`.
  const plugin = { type: "berth", bridge: "chain0", ranges, capabilities: { portMappings: true }, ...fields };
  const chain = { cniVersion: "1.1.0", name: "pods", plugins: [plugin, ...after] };
  await writeFile(join(folder, "net.d/10-pods.conflist"), JSON.stringify(chain));
}

/** Calls the delegate with what libcni gives it, and returns what it answers and how long it took. */
async function call(
  verb: string,
  {
    timeoutMs = 60_000,
    netns = "/run/netns/inner",
    containerId = "3f2a",
    ifName = "eth0",
    hostPort = 8080,
    annotations = {},
  } = {},
) {
  const [plugin] = (JSON.parse(formatDelegateList(conf(timeoutMs))) as { plugins: [object] }).plugins;
  const portMappings = [{ hostPort, containerPort: 80, protocol: "tcp" }];
  const runtimeConfig = { portMappings, "io.kubernetes.cri.pod-annotations": annotations };
  const input = JSON.stringify({ cniVersion: "1.0.0", name: "berth-delegate", ...plugin, runtimeConfig });
  const parameters = { CNI_COMMAND: verb, CNI_CONTAINERID: containerId, CNI_NETNS: netns, CNI_IFNAME: ifName };
  const args = `K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=${containerId}`;
  const env = { ...parameters, CNI_ARGS: args, CNI_PATH: join(folder, "bin") };
  const startedMs = performance.now();
  const argv = [...inOuter, ...form.argv(join(folder, "bin"))];
  const { stdout, stderr, exitCode } = await execa("ip", argv, { env, input, reject: false });
  const output = stdout === "" ? undefined : (JSON.parse(stdout) as Readonly<Record<string, unknown>>);
  return { output, stderr, exitCode, durationMs: performance.now() - startedMs };
}

const done = { exitCode: 0, stderr: "" };
const added = { ...done, output: { cniVersion: "1.0.0", ips: [{ address: "10.222.5.2/24", gateway: "10.222.5.1" }] } };

/** The interfaces of both namespaces that a pod has, its reserved address, and its entry in the cache. */
async function view() {
  const linksOf = async (netns: string) => {
    const { stdout } = await execa("ip", ["-n", netns, "-brief", "link"]);
    return stdout.split("\n").flatMap((line) => line.match(/^(veth|eth0)/)?.[0] ?? []);
  };
  const namesIn = (path: string) =>
    readdir(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      return [];
    });
  return {
    links: [...(await linksOf("inner")), ...(await linksOf("outer"))],
    addresses: (await namesIn("/run/berth/network/pods/addresses")).filter((name) => name === "10.222.5.2"),
    cached: await namesIn(join(folder, "cache/results")),
  };
}

/** A plugin after the built-in network, which notes its calls, and waits in one verb as long as its file `hold-VERB` exists. */
async function putSlowPlugin() {
  const script = `#!/bin/sh
cd ${folder}
echo "$CNI_COMMAND begins" >> notes
if [ -e hold-$CNI_COMMAND ]; then
  echo $$ > held
  while [ -e hold-$CNI_COMMAND ]; do sleep 0.02; done
fi
echo "$CNI_COMMAND ends" >> notes
if [ "$CNI_COMMAND" = ADD ]; then sed 's/.*"prevResult"://; s/}$//'; fi
`;
  await writeFile(join(folder, "bin/slow"), script, { mode: 0o755 });
  await putChain({}, { type: "slow" });
}

const notes = async () => (await readFile(join(folder, "notes"), "utf8")).trim().split("\n");
const hold = (verb: string) => writeFile(join(folder, `hold-${verb}`), "");
const letGo = (verb: string) => rm(join(folder, `hold-${verb}`));

/** The process id of the plugin that waits. */
async function heldPlugin(): Promise<number> {
  const pid = await pollUntil("the plugin to wait", 20_000, async () => {
    const text = await readFile(join(folder, "held"), "utf8").catch(ifAbsent(""));
    return text.endsWith("\n") ? Number(text) : undefined;
  });
  await rm(join(folder, "held"));
  return pid;
}

/** Kills the process that executes the attachment; it has written its id into the lock. */
async function killExecutor() {
  const holder = await readFile(join(folder, "cache/locks/pods-3f2a-eth0"), "utf8");
  process.kill(Number(holder.split(" ").at(-1)), "SIGKILL");
}

const attached = { links: ["eth0", "veth"], addresses: ["10.222.5.2"], cached: ["pods-3f2a-eth0"] };
const nothing = { links: [], addresses: [], cached: [] };

inMountNamespace(import.meta.path, "the delegate of a container runtime", () => {
  beforeAll(async () => {
    await execa("mount", ["-t", "tmpfs", "tmpfs", "/run"]);
  });
  describe.each(forms)("$name", (each) => {
    afterAll(killAgent);
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), "berth-delegate-"));
      for (const name of ["net.d", "bin", "runtime.d", "root"]) await mkdir(join(folder, name));
      form = each;
      await form.install(join(folder, "bin"));
      await putChain({});
      await writeFile(join(folder, "runtime.d/10-berth.conflist"), formatDelegateList(conf(TIMEOUT_MS)));
      for (const name of namespaces) await execa("ip", ["netns", "add", name]);
    });
    afterEach(async () => {
      await killAgent();
      for (const name of namespaces) await execa("ip", ["netns", "del", name]);
      await rm("/run/berth", { recursive: true, force: true });
      await rm(folder, { recursive: true });
    });

    for (const [where, start] of [
      ["by the agent", () => startAgent()],
      ["by itself when the agent is away", async () => undefined],
    ] as const)
      test(`ADD, CHECK and DEL are executed ${where}`, async () => {
        await start();
        expect(await call("ADD")).toMatchObject(added);
        expect(await view()).toEqual(attached);
        expect(await call("CHECK")).toMatchObject({ ...done, output: undefined });
        expect(await call("DEL")).toMatchObject({ ...done, output: undefined });
        expect(await view()).toEqual(nothing);
        expect(await call("DEL")).toMatchObject(done);
      }, 60_000);

    test("what the agent has added the delegate deletes when it is killed, and the next agent what the delegate has added", async () => {
      await startAgent();
      expect(await call("ADD")).toMatchObject(added);
      await killAgent();
      expect(await call("DEL")).toMatchObject(done);
      expect(await view()).toEqual(nothing);
      expect(await call("ADD")).toMatchObject(added);
      await startAgent();
      expect(await call("CHECK")).toMatchObject(done);
      expect(await call("DEL")).toMatchObject(done);
      expect(await view()).toEqual(nothing);
    }, 60_000);

    test("an agent that starts deletes what has no sandbox, torn entries too, and keeps what may have one", async () => {
      // All are in one network namespace, which takes one default route.
      await putChain({ isDefaultGateway: false });
      const ids = ["gone", "torn", "ready", "young"];
      for (const [index, containerId] of ids.entries())
        expect(await call("ADD", { containerId, ifName: `eth${index}`, hostPort: 8080 + index })).toMatchObject(done);
      const pathOf = (id: string) => join(folder, "cache/results", `pods-${id}-eth${ids.indexOf(id)}`);
      const old = new Date(Date.now() - YOUNG_FOR_MS);
      for (const id of ["gone", "ready"]) await utimes(pathOf(id), old, old);
      await writeFile(pathOf("torn"), "{");
      const found = async () => {
        const { stdout: links } = await execa("ip", ["-n", "inner", "-brief", "link"]);
        return {
          links: links.match(/^eth\d/gm)?.toSorted(),
          addresses: (await readdir("/run/berth/network/pods/addresses"))
            .filter((name) => /\.[2-5]$/.test(name))
            .toSorted(),
          cached: (await readdir(join(folder, "cache/results"))).toSorted(),
        };
      };
      expect((await found()).links).toEqual(["eth0", "eth1", "eth2", "eth3"]);
      await startAgent({ sandboxes: ["ready", "another"] });
      await pollUntil("two released addresses", 10_000, async () => (await found()).addresses.length === 2);
      expect(await found()).toEqual({
        links: ["eth2", "eth3"],
        addresses: ["10.222.5.4", "10.222.5.5"],
        cached: ["pods-ready-eth2", "pods-young-eth3"],
      });
      const addNext = (hostPort: number) => call("ADD", { containerId: "next", ifName: "eth0", hostPort });
      expect(await addNext(8082)).toMatchObject({ exitCode: 1, output: { code: 104 } });
      expect(await addNext(8080)).toMatchObject(done);
    }, 60_000);

    test("an agent that starts deletes what a killed ADD of a list with another name has left", async () => {
      await putSlowPlugin();
      await hold("ADD");
      const killed = call("ADD", { timeoutMs: 2 * TIMEOUT_MS });
      await heldPlugin();
      await killExecutor();
      await killed;
      await letGo("ADD");
      expect(await view()).toEqual({ ...attached, cached: [] });
      const list = join(folder, "net.d/10-pods.conflist");
      await writeFile(list, (await readFile(list, "utf8")).replace('"name":"pods"', '"name":"others"'));
      const old = new Date(Date.now() - YOUNG_FOR_MS);
      await utimes("/run/berth/network/pods/attachments/3f2a:eth0.json", old, old);
      await startAgent({ sandboxes: ["another"] });
      await pollUntil("an empty network", 10_000, async () => Bun.deepEquals(await view(), nothing));
    }, 60_000);

    test("with --network=builtin the delegate executes what the agent would, and ends what was made of the chain", async () => {
      await startAgent();
      expect(await call("ADD")).toMatchObject(added);
      await killAgent();
      await startAgent({ source: "builtin" });
      const other = { containerId: "77aa", netns: "/run/netns/second", hostPort: 8081 };
      const ofBuiltin = { ...done, output: { ips: [{ address: "10.241.0.2/24" }] } };
      expect(await call("ADD", other)).toMatchObject(ofBuiltin);
      expect(await call("DEL", other)).toMatchObject(done);
      await killAgent();
      expect(await call("ADD", other)).toMatchObject(ofBuiltin);
      for (const each of [other, {}]) expect(await call("DEL", each)).toMatchObject(done);
      expect(await view()).toEqual(nothing);
    }, 60_000);

    test("a stopped agent costs a call its time and no more, and DEL works when it goes on", async () => {
      const stopped = await startAgent();
      expect(await call("ADD")).toMatchObject(added);
      stopped.kill("SIGSTOP");
      const failed = await call("DEL", { timeoutMs: TIMEOUT_MS });
      expect(failed).toMatchObject({
        exitCode: 1,
        output: {
          code: 11,
          msg: `the agent on ${folder}/root/cni.sock, which may be stopped, has not answered DEL within ${TIMEOUT_MS} ms`,
        },
      });
      expect(failed.durationMs).toBeGreaterThanOrEqual(TIMEOUT_MS);
      expect(failed.durationMs).toBeLessThan(2 * TIMEOUT_MS);
      expect(await view()).toEqual(attached);
      stopped.kill("SIGCONT");
      expect(await call("DEL")).toMatchObject(done);
      expect(await view()).toEqual(nothing);
    }, 60_000);

    test("an ADD whose delegate has left a stopped agent leaves nothing when the agent goes on", async () => {
      const stopped = await startAgent();
      stopped.kill("SIGSTOP");
      expect(await call("ADD", { timeoutMs: TIMEOUT_MS })).toMatchObject({ exitCode: 1, output: { code: 11 } });
      stopped.kill("SIGCONT");
      // The agent has read that call before this one.
      expect(await call("DEL", { containerId: "77aa" })).toMatchObject(done);
      await pollUntil("an empty network", 5_000, async () => Bun.deepEquals(await view(), nothing));
    }, 60_000);

    for (const [executor, start] of [
      ["agent", () => startAgent()],
      ["delegate without an agent", async () => undefined],
    ] as const) {
      for (const verb of ["ADD", "DEL"] as const)
        test(`when the ${executor} is killed during ${verb}, its plugin goes on, and no other call is executed until the plugin ends`, async () => {
          await putSlowPlugin();
          await start();
          if (verb === "DEL") expect(await call("ADD")).toMatchObject({ exitCode: 0 });
          const before = verb === "DEL" ? ["ADD begins", "ADD ends"] : [];
          await hold(verb);
          const killed = call(verb, { timeoutMs: 2 * TIMEOUT_MS });
          await heldPlugin();
          await killExecutor();
          await killed;
          await startAgent();
          const late = {
            exitCode: 1,
            output: { code: 11, msg: expect.stringContaining("has not answered DEL within") },
          };
          expect(await call("DEL", { timeoutMs: TIMEOUT_MS })).toMatchObject(late);
          expect(await notes()).toEqual([...before, `${verb} begins`]);
          await letGo(verb);
          expect(await call("DEL")).toMatchObject(done);
          expect(await notes()).toEqual([...before, `${verb} begins`, `${verb} ends`, "DEL begins", "DEL ends"]);
          expect(await view()).toEqual(nothing);
          expect(await call("ADD")).toMatchObject({ exitCode: 0 });
          expect(await call("DEL")).toMatchObject(done);
        }, 60_000);

      test(`when a plugin of the ${executor} is killed, its call fails: ADD leaves nothing, CHECK and DEL succeed the next time`, async () => {
        await putSlowPlugin();
        await start();
        for (const [verb, remains] of [
          ["ADD", { links: [], cached: [] }],
          ["CHECK", { links: attached.links, cached: attached.cached }],
          ["DEL", { links: attached.links, cached: attached.cached }],
        ] as const) {
          await hold(verb);
          const failed = call(verb);
          process.kill(await heldPlugin(), "SIGKILL");
          const msg = expect.stringMatching(/^slow: .*was killed by SIGKILL/);
          expect(await failed).toMatchObject({ exitCode: 1, output: { msg } });
          // A second ADD may have got another address.
          const { links, cached } = await view();
          expect<object>({ links, cached }).toEqual(remains);
          await letGo(verb);
          expect(await call(verb)).toMatchObject({ exitCode: 0 });
        }
        expect(await view()).toEqual(nothing);
      }, 60_000);
    }

    test("a network namespace that is none is the plugin's error, with its code, by the agent and without it", async () => {
      const expected = {
        exitCode: 1,
        output: { cniVersion: "1.0.0", code: 8, msg: expect.stringMatching(/^berth: /) },
      };
      expect(await call("ADD", { netns: "/run/netns/nowhere" })).toMatchObject(expected);
      await startAgent();
      expect(await call("ADD", { netns: "/run/netns/nowhere" })).toMatchObject(expected);
      expect(await view()).toEqual(nothing);
    }, 60_000);

    test("a pod that selects networks waits for an agent, and one of a standalone node says that it cannot have them", async () => {
      const annotations = { "k8s.v1.cni.cncf.io/networks": "lan" };
      expect(await call("ADD", { annotations })).toMatchObject({
        exitCode: 1,
        output: { code: 11, msg: expect.stringMatching(/^the pod selects the network shop\/lan, .*; it is away$/) },
      });
      await startAgent();
      expect(await call("ADD", { annotations })).toMatchObject({
        exitCode: 1,
        output: { code: 7, msg: expect.stringContaining("and this node has none (--kubeconfig)") },
      });
      expect(await view()).toEqual(nothing);
      expect(await call("DEL", { annotations })).toMatchObject(done);
    }, 60_000);

    test("a chain that contains the delegate is refused", async () => {
      await writeFile(join(folder, "net.d/05-loop.conflist"), formatDelegateList(conf(TIMEOUT_MS)));
      expect(await call("ADD")).toMatchObject({
        exitCode: 1,
        output: { code: 7, msg: expect.stringContaining("contains berth-cni, which would call itself without end") },
      });
    }, 60_000);
  });
});
