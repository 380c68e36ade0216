// The delegate as a container runtime calls it, with the built-in network in namespaces of its own: with an agent, without one,
// and with one that is stopped or killed.
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { readdir, readFile, rm, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { YOUNG_FOR_MS } from "../../cni/attachment-state.ts";
import { formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { pollUntil, startStopwatch } from "../bed/poll-until.ts";
import {
  added,
  addedNext,
  attached,
  confOf,
  createDelegateNode,
  type DelegateNode,
  done,
  nothing,
  TIMEOUT_MS,
} from "./delegate-fixture.ts";
import { delegateForm, describeForms } from "./delegate-forms.ts";
import { inMountNamespace } from "./own-namespace.ts";

const forms = await delegateForm();
let node: DelegateNode;

inMountNamespace(import.meta.path, "the delegate of a container runtime", () => {
  beforeAll(async () => {
    await execa("mount", ["-t", "tmpfs", "tmpfs", "/run"]);
  });
  describeForms(forms, (each) => {
    beforeEach(async () => {
      node = await createDelegateNode(each);
    });
    afterEach(() => node.close());

    for (const [where, start] of [
      ["by the agent", () => node.startAgent()],
      ["by itself when the agent is away", async () => undefined],
    ] as const)
      test(`ADD, CHECK and DEL are executed ${where}`, async () => {
        await start();
        expect(await node.call("ADD")).toMatchObject(added);
        expect(await node.view()).toEqual(attached);
        expect(await node.call("CHECK")).toMatchObject({ ...done, output: undefined });
        expect(await node.call("DEL")).toMatchObject({ ...done, output: undefined });
        expect(await node.viewAfterDel()).toEqual(nothing);
        expect(await node.call("DEL")).toMatchObject(done);
      }, 600_000);

    test("what the agent has added the delegate deletes when it is killed, and the next agent what the delegate has added", async () => {
      await node.startAgent();
      expect(await node.call("ADD")).toMatchObject(added);
      await node.killAgent();
      expect(await node.call("DEL")).toMatchObject(done);
      expect(await node.viewAfterDel()).toEqual(nothing);
      expect(await node.call("ADD")).toMatchObject(addedNext);
      await node.startAgent();
      expect(await node.call("CHECK")).toMatchObject(done);
      expect(await node.call("DEL")).toMatchObject(done);
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);

    test("an ADD that two executors get at once is executed once, and both answer with its result", async () => {
      await node.putSlowPlugin();
      await node.startAgent();
      await node.hold("ADD");
      const ofAgent = node.call("ADD");
      await node.heldPlugin();
      const ofDelegate = node.call("ADD", { socket: "root/no-agent.sock" });
      await node.letGo("ADD");
      const { exitCode, output } = await ofAgent;
      expect([exitCode, await ofDelegate]).toMatchObject([0, { exitCode: 0, output }]);
      expect(await node.notes()).toEqual(["ADD begins", "ADD ends"]);
      expect(await node.call("DEL")).toMatchObject(done);
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);

    test("an agent that starts deletes what has no sandbox, torn entries too, and keeps what may have one, with an entry in the cache or without", async () => {
      // All are in one network namespace, which takes one default route.
      await node.putChain({ isDefaultGateway: false });
      const ids = ["lost", "gone", "torn", "ready", "young"];
      for (const [index, containerId] of ids.entries())
        expect(await node.call("ADD", { containerId, ifName: `eth${index}`, hostPort: 8080 + index })).toMatchObject(
          done,
        );
      const pathOf = (id: string) => join(node.folder, "cache/results", `pods-${id}-eth${ids.indexOf(id)}`);
      const old = new Date(Date.now() - YOUNG_FOR_MS);
      for (const id of ["gone", "ready"]) await utimes(pathOf(id), old, old);
      await writeFile(pathOf("torn"), "{");
      // Of a sandbox that is ready.
      await rm(pathOf("lost"));
      const found = async () => {
        const { stdout: links } = await execa("ip", ["-n", "inner", "-brief", "link"]);
        return {
          links: links.match(/^eth\d/gm)?.toSorted(),
          addresses: (await readdir("/run/berth/network/pods/addresses"))
            .filter((name) => /\.[2-6]$/.test(name))
            .toSorted(),
          cached: (await readdir(join(node.folder, "cache/results"))).toSorted(),
        };
      };
      expect((await found()).links).toEqual(["eth0", "eth1", "eth2", "eth3", "eth4"]);
      await node.startAgent({ sandboxes: ["lost", "ready", "another"] });
      // The agent deletes links up to two seconds after it has released their addresses.
      await pollUntil("two deleted links", 10_000, async () => (await found()).links?.length === 3);
      expect(await found()).toEqual({
        links: ["eth0", "eth3", "eth4"],
        addresses: ["10.222.5.2", "10.222.5.5", "10.222.5.6"],
        cached: ["pods-ready-eth3", "pods-young-eth4"],
      });
      const addNext = (hostPort: number) => node.call("ADD", { containerId: "next", ifName: "eth5", hostPort });
      expect(await addNext(8083)).toMatchObject({ exitCode: 1, output: { code: 104 } });
      expect(await addNext(8081)).toMatchObject(done);
    }, 600_000);

    test("an agent that starts deletes what a killed ADD of a list with another name has left", async () => {
      await node.putSlowPlugin();
      await node.hold("ADD");
      const killed = node.call("ADD");
      await node.heldPlugin();
      await node.signalExecutor("SIGKILL");
      await killed;
      await node.letGo("ADD");
      expect(await node.view()).toEqual({ ...attached, cached: [] });
      const list = join(node.folder, "net.d/10-pods.conflist");
      await writeFile(list, (await readFile(list, "utf8")).replace('"name":"pods"', '"name":"others"'));
      const old = new Date(Date.now() - YOUNG_FOR_MS);
      await utimes("/run/berth/network/pods/attachments/3f2a:eth0.json", old, old);
      await node.startAgent({ sandboxes: ["another"] });
      await pollUntil("an empty network", 10_000, async () => Bun.deepEquals(await node.view(), nothing));
    }, 600_000);

    test("with --network=builtin the delegate executes what the agent would, and ends what was made of the chain", async () => {
      await node.startAgent();
      expect(await node.call("ADD")).toMatchObject(added);
      await node.killAgent();
      await node.startAgent({ source: "builtin" });
      const other = { containerId: "77aa", netns: "/run/netns/second", hostPort: 8081 };
      const ofBuiltin = (address: string) => ({ ...done, output: { ips: [{ address }] } });
      expect(await node.call("ADD", other)).toMatchObject(ofBuiltin("10.241.0.2/24"));
      expect(await node.call("DEL", other)).toMatchObject(done);
      await node.killAgent();
      expect(await node.call("ADD", other)).toMatchObject(ofBuiltin("10.241.0.3/24"));
      for (const each of [other, {}]) expect(await node.call("DEL", each)).toMatchObject(done);
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);

    describe("the built-in network as the fallback of a standalone node whose folder has no configuration", () => {
      const inSecond = { containerId: "77aa", netns: "/run/netns/second", hostPort: 8081 };
      const ofBuiltin = (address: string) => ({ ...done, output: { ips: [{ address }] } });
      const builtinAttachments = async () =>
        (await readdir("/run/berth/network/berth/attachments").catch(ifAbsent([]))).toSorted();
      beforeEach(() => node.removeChain());

      test("has the built-in network, by the agent and without it, until a list appears, and again when it goes", async () => {
        await node.startAgent({ source: "auto" });
        expect(await node.networkReady()).toBe(true);
        expect(await node.call("ADD", inSecond)).toMatchObject(ofBuiltin("10.241.0.2/24"));
        await node.putChain({});
        expect(await node.call("ADD")).toMatchObject(added);
        expect(await node.call("CHECK", inSecond)).toMatchObject(done);
        await node.killAgent();
        expect(await node.call("DEL")).toMatchObject(done);
        expect(await node.call("ADD")).toMatchObject(addedNext);
        await node.removeChain();
        for (const call of [inSecond, {}]) expect(await node.call("CHECK", call)).toMatchObject(done);
        for (const call of [inSecond, {}]) expect(await node.call("DEL", call)).toMatchObject(done);
        expect([await node.viewAfterDel(), await builtinAttachments()]).toEqual([nothing, []]);
        expect(await node.call("ADD", inSecond)).toMatchObject(ofBuiltin("10.241.0.3/24"));
        await node.startAgent({ source: "auto" });
        expect(await node.call("DEL", inSecond)).toMatchObject(done);
        expect([await node.viewAfterDel(), await builtinAttachments()]).toEqual([nothing, []]);
      }, 600_000);

      test("has a broken list instead, by the agent and without it, and pods of the built-in network can be deleted", async () => {
        await node.startAgent({ source: "auto" });
        expect(await node.call("ADD", inSecond)).toMatchObject(ofBuiltin("10.241.0.2/24"));
        await writeFile(join(node.folder, "net.d/10-pods.conflist"), "{");
        const isBroken = expect.stringContaining(`${node.folder}/net.d/10-pods.conflist is not JSON`);
        expect(await node.networkReady()).toEqual(isBroken);
        const refused = { exitCode: 1, output: { code: 6, msg: isBroken } };
        expect(await node.call("ADD")).toMatchObject(refused);
        await node.killAgent();
        expect(await node.call("ADD")).toMatchObject(refused);
        expect(await node.call("DEL", inSecond)).toMatchObject(done);
        expect([await node.viewAfterDel(), await builtinAttachments()]).toEqual([nothing, []]);
      }, 600_000);

      test("ends pods with torn entries after a list has appeared, by the agent and by berth-cni, and accepts a second DEL by the other", async () => {
        await node.startAgent({ source: "auto" });
        const both = [inSecond, {}];
        for (const call of both) expect(await node.call("ADD", call)).toMatchObject(done);
        await node.putChain({});
        for (const id of ["77aa", "3f2a"]) await truncate(join(node.folder, `cache/results/berth-${id}-eth0`), 100);
        expect(await node.call("DEL", inSecond)).toMatchObject(done);
        expect(await builtinAttachments()).toEqual(["3f2a:eth0.json"]);
        await node.killAgent();
        for (const call of both) expect(await node.call("DEL", call)).toMatchObject(done);
        expect([await node.viewAfterDel(), await builtinAttachments()]).toEqual([nothing, []]);
        await node.startAgent({ source: "auto" });
        for (const call of both) expect(await node.call("DEL", call)).toMatchObject(done);
        expect([await node.viewAfterDel(), await builtinAttachments()]).toEqual([nothing, []]);
      }, 600_000);

      test("keeps the pods of the built-in network when a list appears and garbage is collected, and deletes what has no sandbox", async () => {
        await node.startAgent({ source: "auto" });
        expect(await node.call("ADD", inSecond)).toMatchObject(ofBuiltin("10.241.0.2/24"));
        expect(await node.call("ADD", { containerId: "lost" })).toMatchObject(ofBuiltin("10.241.0.3/24"));
        await node.killAgent();
        await node.putChain({});
        const old = new Date(Date.now() - YOUNG_FOR_MS);
        await rm(join(node.folder, "cache/results/berth-lost-eth0"));
        for (const path of [
          join(node.folder, "cache/results/berth-77aa-eth0"),
          ...["77aa", "lost"].map((id) => `/run/berth/network/berth/attachments/${id}:eth0.json`),
        ])
          await utimes(path, old, old);
        await node.startAgent({ source: "auto", sandboxes: ["77aa"] });
        await pollUntil("the end of the collection", 20_000, async () => (await builtinAttachments()).length < 2);
        expect(await builtinAttachments()).toEqual(["77aa:eth0.json"]);
        expect(await node.call("CHECK", inSecond)).toMatchObject(done);
        expect(await node.call("DEL", inSecond)).toMatchObject(done);
        expect([await node.viewAfterDel(), await builtinAttachments()]).toEqual([nothing, []]);
      }, 600_000);
    });

    test("a stopped agent costs a call its time and no more, and DEL works when it goes on", async () => {
      const stopped = await node.startAgent();
      expect(await node.call("ADD")).toMatchObject(added);
      stopped.kill("SIGSTOP");
      const countedMs = startStopwatch({ afterMs: TIMEOUT_MS });
      const failed = await node.call("DEL", { timeoutMs: TIMEOUT_MS });
      const costMs = countedMs();
      expect(failed).toMatchObject({
        exitCode: 1,
        output: {
          code: 11,
          msg: `the agent on ${node.folder}/root/cni.sock, which may be stopped, has not answered DEL within ${TIMEOUT_MS} ms`,
        },
      });
      expect(failed.durationMs).toBeGreaterThanOrEqual(TIMEOUT_MS);
      expect(costMs).toBeLessThan(2 * TIMEOUT_MS);
      expect(await node.view()).toEqual(attached);
      stopped.kill("SIGCONT");
      expect(await node.call("DEL")).toMatchObject(done);
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);

    test("an ADD whose delegate has left a stopped agent leaves nothing when the agent goes on", async () => {
      const stopped = await node.startAgent();
      stopped.kill("SIGSTOP");
      expect(await node.call("ADD", { timeoutMs: TIMEOUT_MS })).toMatchObject({ exitCode: 1, output: { code: 11 } });
      stopped.kill("SIGCONT");
      // The agent has read that call before this one.
      expect(await node.call("DEL", { containerId: "77aa" })).toMatchObject(done);
      await pollUntil("an empty network", 5_000, async () => Bun.deepEquals(await node.view(), nothing));
    }, 600_000);

    test("when the agent is killed during GC, its plugin goes on, and the next agent collects when that has ended", async () => {
      await node.putSlowPlugin();
      expect(await node.call("ADD")).toMatchObject({ exitCode: 0 });
      await node.hold("GC");
      await node.startAgent({ sandboxes: ["3f2a"] });
      await node.heldPlugin();
      await node.signalExecutor("SIGKILL", ".pods");
      await node.startAgent({ sandboxes: ["3f2a"] });
      const late = await node.call("DEL", { timeoutMs: TIMEOUT_MS });
      expect(late).toMatchObject({
        exitCode: 1,
        output: { code: 11, msg: expect.stringMatching(/ (has|have) locked /) },
      });
      const before = ["ADD begins", "ADD ends", "GC begins"];
      expect(await node.notes()).toEqual(before);
      await node.letGo("GC");
      const collected = [...before, "GC ends", "GC begins", "GC ends"];
      await pollUntil("the second GC", 20_000, async () => (await node.notes()).length >= collected.length);
      expect([await node.notes(), await node.view()]).toEqual([collected, attached]);
      expect(await node.call("DEL")).toMatchObject(done);
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);

    for (const [executor, start] of [
      ["agent", () => node.startAgent()],
      ["delegate without an agent", async () => undefined],
    ] as const) {
      for (const verb of ["ADD", "DEL"] as const)
        test(`when the ${executor} is killed during ${verb}, its plugin goes on, and no other call is executed until the plugin ends`, async () => {
          await node.putSlowPlugin();
          await start();
          if (verb === "DEL") expect(await node.call("ADD")).toMatchObject({ exitCode: 0 });
          const before = verb === "DEL" ? ["ADD begins", "ADD ends"] : [];
          await node.hold(verb);
          const killed = node.call(verb, { timeoutMs: 4 * TIMEOUT_MS });
          await node.heldPlugin();
          await node.signalExecutor("SIGKILL");
          await killed;
          await node.startAgent();
          // The script of the plugin, and a program that it may have started just then; before its execve(2) that has the script's name. The lower
          // pid comes first, which is the program's once the pids have wrapped around.
          const late = {
            exitCode: 1,
            output: {
              code: 11,
              msg: expect.stringMatching(
                /^(?=.*\(slow\))pid \d+ \((?:sleep|slow)\)( and pid \d+ \((?:sleep|slow)\) have| has) locked eth0 of 3f2a in the network pods since \S+Z, longer than this call may wait$/,
              ),
            },
          };
          // The wait ends after seven twelfths of it: the rest is for the plugins and the answer.
          expect(await node.call("DEL", { timeoutMs: 2 * TIMEOUT_MS })).toMatchObject(late);
          expect(await node.notes()).toEqual([...before, `${verb} begins`]);
          await node.letGo(verb);
          expect(await node.call("DEL")).toMatchObject(done);
          expect(await node.notes()).toEqual([...before, `${verb} begins`, `${verb} ends`, "DEL begins", "DEL ends"]);
          expect(await node.viewAfterDel()).toEqual(nothing);
          expect(await node.call("ADD")).toMatchObject({ exitCode: 0 });
          expect(await node.call("DEL")).toMatchObject(done);
        }, 600_000);

      test(`a plugin of the ${executor} that hangs in ADD, and in the DEL which undoes it, is named before the runtime gives up`, async () => {
        await node.putSlowPlugin();
        await start();
        for (const verb of ["ADD", "DEL"]) await node.hold(verb);
        expect(await node.call("ADD", { timeoutMs: 16_000 })).toMatchObject({
          exitCode: 1,
          output: { code: 0, msg: expect.stringMatching(/^slow: .*\/bin\/slow did not end within \d+ ms$/) },
        });
        expect(await node.notes()).toEqual(["ADD begins", "DEL begins"]);
        // The other plugins have undone their part.
        expect(await node.viewAfterDel()).toEqual(nothing);
        await node.letGo("DEL");
        expect(await node.call("DEL")).toMatchObject(done);
        expect(await node.notes()).toEqual(["ADD begins", "DEL begins", "DEL begins", "DEL ends"]);
      }, 600_000);

      test(`when a plugin of the ${executor} is killed, its call fails: ADD leaves nothing, CHECK and DEL succeed the next time`, async () => {
        await node.putSlowPlugin();
        await start();
        for (const [verb, remains] of [
          ["ADD", { links: [], cached: [] }],
          ["CHECK", { links: attached.links, cached: attached.cached }],
          ["DEL", { links: attached.links, cached: attached.cached }],
        ] as const) {
          await node.hold(verb);
          const failed = node.call(verb);
          process.kill(await node.heldPlugin(), "SIGKILL");
          const msg = expect.stringMatching(/^slow: .*was killed by SIGKILL/);
          expect(await failed).toMatchObject({ exitCode: 1, output: { msg } });
          // A second ADD may have got another address.
          const { links, cached } = verb === "ADD" ? await node.viewAfterDel() : await node.view();
          expect<object>({ links, cached }).toEqual(remains);
          await node.letGo(verb);
          expect(await node.call(verb)).toMatchObject({ exitCode: 0 });
        }
        expect(await node.viewAfterDel()).toEqual(nothing);
      }, 600_000);
    }

    test("when a plugin is killed during STATUS, the condition names it, and the next look finds the network ready", async () => {
      await node.putSlowPlugin();
      await node.startAgent();
      await node.hold("STATUS");
      const failed = node.networkReady();
      process.kill(await node.heldPlugin(), "SIGKILL");
      expect(await failed).toMatch(/^Network plugin returns error: slow: .*was killed by SIGKILL/);
      await node.letGo("STATUS");
      for (let time = 0; time < 2; time++) expect(await node.networkReady()).toBe(true);
      expect(await node.notes()).toEqual(["STATUS begins", "STATUS begins", "STATUS ends"]);
    }, 600_000);

    test("a GC whose plugin was killed is repeated, and collects; pods start meanwhile", async () => {
      await node.putSlowPlugin();
      const old = new Date(Date.now() - YOUNG_FOR_MS);
      expect(await node.call("ADD", { containerId: "gone", netns: "/run/netns/second" })).toMatchObject(done);
      await utimes(join(node.folder, "cache/results/pods-gone-eth0"), old, old);
      await node.hold("GC");
      await node.hold("DEL");
      await node.startAgent({ sandboxes: ["3f2a"] });
      for (const verb of ["DEL", "GC"]) {
        process.kill(await node.heldPlugin(), "SIGKILL");
        await node.letGo(verb);
      }
      // Not after the back-off, which is ten seconds.
      expect(await node.call("ADD", { hostPort: 8081 })).toMatchObject(done);
      const before = [...["ADD begins", "ADD ends"], ...["DEL begins", "GC begins"], ...["ADD begins", "ADD ends"]];
      expect(await node.notes()).toEqual(before);
      const collected = [...before, ...["DEL begins", "DEL ends", "GC begins", "GC ends"]];
      await pollUntil("the second GC", 30_000, async () => (await node.notes()).length >= collected.length);
      expect(await node.notes()).toEqual(collected);
      expect((await node.view()).cached).toEqual(["pods-3f2a-eth0"]);
      expect(await node.call("DEL")).toMatchObject(done);
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);

    test("a network namespace that is none is the plugin's error, with its code, by the agent and without it", async () => {
      const expected = {
        exitCode: 1,
        output: { cniVersion: "1.0.0", code: 8, msg: expect.stringMatching(/^berth: /) },
      };
      expect(await node.call("ADD", { netns: "/run/netns/nowhere" })).toMatchObject(expected);
      await node.startAgent();
      expect(await node.call("ADD", { netns: "/run/netns/nowhere" })).toMatchObject(expected);
      expect(await node.viewAfterDel()).toEqual(nothing);
    }, 600_000);

    test("a pod that selects networks waits for an agent, and one of a standalone node says that it cannot have them", async () => {
      const annotations = { "k8s.v1.cni.cncf.io/networks": "lan" };
      expect(await node.call("ADD", { annotations })).toMatchObject({
        exitCode: 1,
        output: { code: 11, msg: expect.stringMatching(/^the pod selects the network shop\/lan, .*; it is away$/) },
      });
      await node.startAgent();
      expect(await node.call("ADD", { annotations })).toMatchObject({
        exitCode: 1,
        output: { code: 7, msg: expect.stringContaining("and this node has none (--kubeconfig)") },
      });
      expect(await node.viewAfterDel()).toEqual(nothing);
      expect(await node.call("DEL", { annotations })).toMatchObject(done);
    }, 600_000);

    test("a chain that contains the delegate is refused", async () => {
      await writeFile(join(node.folder, "net.d/05-loop.conflist"), formatDelegateList(confOf(node.folder, TIMEOUT_MS)));
      expect(await node.call("ADD")).toMatchObject({
        exitCode: 1,
        output: { code: 7, msg: expect.stringContaining("contains berth-cni, which would call itself without end") },
      });
    }, 600_000);
  });
});
