import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../host/clock.ts";
import { createFiles, FilesError } from "../host/fs/files.ts";
import { createAttachmentLocks } from "./attachment-locks.ts";
import type { Attachment } from "./chain.ts";
import { parseNetworkConf } from "./conf.ts";
import { CniError } from "./error.ts";
import { createCni } from "./network.ts";
import type { InProcessPlugin, PluginCall } from "./plugin-call.ts";
import { createPluginCalls } from "./plugin-calls.ts";
import { createResultCache, type ResultCache } from "./result-cache.ts";
import { unlimited } from "./time-limit.ts";
import type { CniVersion } from "./version.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-network-"));
});
afterEach(() => rm(folder, { recursive: true }));

const { signal } = new AbortController();
const attachment: Attachment = {
  containerId: "3f2a",
  netns: "/run/netns/blue",
  ifName: "eth0",
  args: new Map([["K8S_POD_NAME", "web"]]),
  capabilityArgs: { portMappings: [{ hostPort: 8080 }], bandwidth: { ingressRate: 1 } },
};
const key = { network: "pods", containerId: "3f2a", ifName: "eth0" };

function networkOf(cniVersion: CniVersion, fields: object = {}) {
  const plugins = [{ type: "bridge" }, { type: "portmap", capabilities: { portMappings: true } }, { type: "tuning" }];
  return parseNetworkConf(JSON.stringify({ cniVersion, name: "pods", plugins, ...fields }), "a list");
}

type Answer = (call: PluginCall) => object | undefined;

/**
 * An executor with plugins that answer as `answers` says, by verb and type. By default bridge has an address, and the others
 * pass the previous result on, as plugins must.
 */
function createFixture(answers: Readonly<Record<string, Answer>> = {}, changed: Partial<ResultCache> = {}) {
  const calls: PluginCall[] = [];
  const aside: string[] = [];
  const plugins: InProcessPlugin = {
    async call(call) {
      calls.push(call);
      const { type } = call.conf;
      const answer = answers[`${call.verb} ${type}`];
      if (answer !== undefined) return answer(call) as Record<string, unknown> | undefined;
      if (call.verb !== "ADD") return undefined;
      return type === "bridge" ? bridgeResult(call) : (call.conf["prevResult"] as Record<string, unknown>);
    },
  };
  const clock = createClock();
  const files = createFiles(folder);
  const cache = {
    ...createResultCache({ files, clock, onUnreadable: ({ fileName }) => void aside.push(fileName) }),
    ...changed,
  };
  const callPlugin = createPluginCalls({ binaries: plugins, inProcess: new Map(), clock });
  const locks = createAttachmentLocks({ files, clock, description: "a test" });
  return {
    calls,
    aside,
    cache,
    cni: createCni({ createCallPlugin: () => callPlugin, cache, locks, timeLimit: unlimited }),
  };
}

function bridgeResult({ conf: { cniVersion }, netns }: PluginCall) {
  const interfaces = [{ name: "cni0" }, { name: "eth0", sandbox: netns }];
  return { cniVersion, interfaces, ips: [{ address: "10.1.0.5/16", interface: 1 }] };
}

const noneIsValid = async () => [];
const linesOf = (calls: readonly PluginCall[]) => calls.map(({ verb, conf }) => `${verb} ${conf["type"]}`);
const prevOf = ({ conf }: PluginCall) =>
  conf["prevResult"] as { readonly ips?: object; readonly mark?: string } | undefined;
const cached = () => readdir(join(folder, "results"));
const fail = (code: number, message: string) => () => {
  throw new CniError(code, message);
};

test("ADD calls the plugins in their order, each with the result of the one before, and caches the last one", async () => {
  const changed = (call: PluginCall) => ({ ...prevOf(call), dns: { domain: "shop" } });
  const { cni, calls, cache } = createFixture({ "ADD tuning": changed });
  const { result, isCached } = await cni.add(networkOf("1.0.0"), attachment, signal);
  expect({ result, isCached }).toEqual({
    result: {
      interfaces: [{ name: "cni0" }, { name: "eth0", sandbox: "/run/netns/blue" }],
      ips: [{ address: "10.1.0.5/16", interface: 1 }],
      routes: [],
      dns: { domain: "shop" },
    },
    isCached: false,
  });
  expect(linesOf(calls)).toEqual(["ADD bridge", "ADD portmap", "ADD tuning"]);
  expect(calls.map((call) => prevOf(call)?.ips)).toEqual([undefined, result.ips, result.ips]);
  expect(calls.map(({ conf }) => conf["runtimeConfig"])).toEqual([
    undefined,
    { portMappings: [{ hostPort: 8080 }] },
    undefined,
  ]);
  const { capabilityArgs: _, ...target } = attachment;
  for (const { verb, conf, ...rest } of calls) expect(rest).toEqual(target);
  expect(await cache.read(key)).toMatchObject({
    ...attachment,
    config: networkOf("1.0.0").text,
    result: { cniVersion: "1.0.0", dns: { domain: "shop" } },
  });
});

test("results are passed on in the version of the network, whatever a plugin prints", async () => {
  const early = () => ({ cniVersion: "0.2.0", ip4: { ip: "10.1.0.5/16" } });
  const { cni, calls } = createFixture({ "ADD bridge": early });
  await cni.add(networkOf("0.4.0"), attachment, signal);
  expect(prevOf(calls[1]!)).toEqual({
    cniVersion: "0.4.0",
    ips: [{ version: "4", address: "10.1.0.5/16" }],
    dns: {},
  } as never);
});

test("if a plugin fails, all are called with DEL, and its own words and code are the error", async () => {
  const { cni, calls } = createFixture({
    "ADD portmap": fail(100, "port 8080 is taken"),
    "DEL tuning": fail(7, "not configured"),
  });
  const adding = cni.add(networkOf("1.0.0"), attachment, signal);
  await expect(adding).rejects.toMatchObject({ code: 100, message: "port 8080 is taken", plugin: "portmap" });
  expect(linesOf(calls)).toEqual(["ADD bridge", "ADD portmap", "DEL tuning", "DEL portmap", "DEL bridge"]);
  expect(prevOf(calls[4]!)?.ips).toEqual([{ address: "10.1.0.5/16", interface: 1 }]);
  await expect(cached()).rejects.toThrow("ENOENT");
});

const badResults: readonly (readonly [what: string, answer: Answer, code: number, message: string])[] = [
  ["no result", () => undefined, 6, "it printed no result"],
  [
    "an unknown version",
    () => ({ cniVersion: "9.0.0" }),
    1,
    'the result has cniVersion "9.0.0", must be 1.0.0 as the configuration',
  ],
  [
    "an address without its interface",
    () => ({ ips: [{ address: "10.1.0.5/16", interface: 3 }] }),
    6,
    "ips[0].interface: found 3, must be the index of one of the 0 interfaces of the result",
  ],
];
for (const [what, answer, code, message] of badResults)
  test(`a plugin with ${what} fails ADD, and what was made is released`, async () => {
    const { cni, calls } = createFixture({ "ADD bridge": answer });
    await expect(cni.add(networkOf("1.0.0"), attachment, signal)).rejects.toMatchObject({
      code,
      message,
      plugin: "bridge",
    });
    expect(linesOf(calls)).toEqual(["ADD bridge", "DEL tuning", "DEL portmap", "DEL bridge"]);
  });

test("without room for the result the attachment does not stay", async () => {
  const full = () => Promise.reject(new FilesError("ENOSPC", "/var/lib/cni", "no space left"));
  const { cni, calls } = createFixture({}, { write: full });
  await expect(cni.add(networkOf("1.0.0"), attachment, signal)).rejects.toThrow("no space left");
  expect(linesOf(calls).slice(3)).toEqual(["DEL tuning", "DEL portmap", "DEL bridge"]);
  expect(prevOf(calls[3]!)?.ips).toBeDefined();
});

test("an ADD that is cancelled leaves what it has made to DEL, and releases it with an undoSignal", async () => {
  for (const undoSignal of [undefined, signal]) {
    const cancelled = new AbortController();
    const { cni, calls } = createFixture({
      "ADD tuning": ({ conf }) => {
        cancelled.abort();
        return conf["prevResult"] as object;
      },
    });
    const adding = cni.add(networkOf("1.0.0"), attachment, cancelled.signal, undoSignal);
    const undo = ["DEL tuning", "DEL portmap", "DEL bridge"];
    if (undoSignal === undefined) expect((await adding).isCached).toBe(false);
    else await expect(adding).rejects.toMatchObject({ name: "AbortError" });
    expect(linesOf(calls).slice(3)).toEqual(undoSignal === undefined ? [] : undo);
    expect(await cached()).toEqual(undoSignal === undefined ? ["pods-3f2a-eth0"] : []);
    await cni.del("pods", attachment, networkOf("1.0.0"), signal);
  }
});

test("an ADD that is cancelled before its first plugin calls none", async () => {
  const cancelled = new AbortController();
  const read = async () => {
    cancelled.abort();
    return undefined;
  };
  const { cni, calls } = createFixture({}, { read });
  const adding = cni.add(networkOf("1.0.0"), attachment, cancelled.signal, signal);
  await expect(adding).rejects.toMatchObject({ name: "AbortError" });
  expect(linesOf(calls)).toEqual([]);
});

test("an ADD that is cancelled between two plugins is released with an undoSignal", async () => {
  const cancelled = new AbortController();
  const { cni, calls } = createFixture({
    "ADD portmap": () => {
      cancelled.abort();
      throw new CniError(100, "killed");
    },
  });
  const adding = cni.add(networkOf("1.0.0"), attachment, cancelled.signal, signal);
  await expect(adding).rejects.toMatchObject({ name: "AbortError" });
  expect(linesOf(calls)).toEqual(["ADD bridge", "ADD portmap", "DEL tuning", "DEL portmap", "DEL bridge"]);
});

test("an attachment that exists is not made again, but not in another network namespace", async () => {
  const { cni, calls } = createFixture();
  const conf = networkOf("1.0.0");
  const [first, second] = await Promise.all([cni.add(conf, attachment, signal), cni.add(conf, attachment, signal)]);
  expect([first.isCached, second.isCached].toSorted()).toEqual([false, true]);
  expect(first.result).toEqual(second.result);
  expect(calls).toHaveLength(3);
  await expect(cni.add(conf, { ...attachment, netns: "/run/netns/red" }, signal)).rejects.toMatchObject({
    code: 4,
    message: "eth0 of 3f2a is attached already, in the network namespace /run/netns/blue; it must be deleted first",
  });
});

test("bad parameters are refused before a plugin is called", async () => {
  const { cni, calls } = createFixture();
  const conf = networkOf("1.0.0");
  await expect(cni.add(conf, { ...attachment, containerId: "../x" }, signal)).rejects.toMatchObject({ code: 4 });
  await expect(cni.del("pods", { ...attachment, ifName: "a/b" }, conf, signal)).rejects.toMatchObject({ code: 4 });
  await expect(cni.check(conf, { ...attachment, containerId: "" }, signal)).rejects.toMatchObject({ code: 3 });
  expect(calls).toEqual([]);
});

test("DEL calls the plugins in reverse order, as ADD has called them, even if the network has changed or is gone", async () => {
  const { cni, calls } = createFixture();
  await cni.add(networkOf("1.0.0"), attachment, signal);
  calls.length = 0;
  const bare = { ...attachment, netns: "", args: new Map<string, string>(), capabilityArgs: {} };
  await cni.del("pods", bare, networkOf("1.1.0", { plugins: [{ type: "macvlan" }] }), signal);
  expect(linesOf(calls)).toEqual(["DEL tuning", "DEL portmap", "DEL bridge"]);
  for (const call of calls) {
    expect(call).toMatchObject({ netns: "", args: attachment.args });
    expect(prevOf(call)?.ips).toEqual([{ address: "10.1.0.5/16", interface: 1 }]);
  }
  expect(calls[1]?.conf["runtimeConfig"]).toEqual({ portMappings: [{ hostPort: 8080 }] });
  expect(await cached()).toEqual([]);
});

test("DEL of what was never added calls the plugins without a result; without a configuration it is refused", async () => {
  const { cni, calls } = createFixture();
  await cni.del("pods", attachment, networkOf("1.0.0"), signal);
  expect(linesOf(calls)).toEqual(["DEL tuning", "DEL portmap", "DEL bridge"]);
  expect(calls.map(prevOf)).toEqual([undefined, undefined, undefined]);
  await expect(cni.del("pods", attachment, undefined, signal)).rejects.toMatchObject({
    code: 7,
    message: "the network pods has no configuration any more, and 3f2a has none in the cache",
  });
});

test("a DEL that fails ends there, and keeps the entry for the next one", async () => {
  let answer: Answer = fail(100, "busy");
  const { cni, calls } = createFixture({ "DEL portmap": (call) => answer(call) });
  const conf = networkOf("1.0.0");
  await cni.add(conf, attachment, signal);
  await expect(cni.del("pods", attachment, conf, signal)).rejects.toMatchObject({ code: 100, plugin: "portmap" });
  expect(linesOf(calls).slice(3)).toEqual(["DEL tuning", "DEL portmap"]);
  expect(await cached()).toEqual(["pods-3f2a-eth0"]);
  answer = () => undefined;
  await cni.del("pods", attachment, conf, signal);
  expect(await cached()).toEqual([]);
});

test("plugins get no result with DEL before 0.4.0", async () => {
  const { cni, calls } = createFixture();
  await cni.add(networkOf("0.3.1"), attachment, signal);
  await cni.del("pods", attachment, undefined, signal);
  expect(calls.slice(3).map(prevOf)).toEqual([undefined, undefined, undefined]);
});

test("a torn cache file is set aside, and the attachment is deleted with what is known", async () => {
  const { cni, calls, aside } = createFixture();
  const conf = networkOf("1.0.0");
  await cni.add(conf, attachment, signal);
  await writeFile(join(folder, "results", "pods-3f2a-eth0"), '{"kind":"cniCa');
  await cni.del("pods", attachment, conf, signal);
  expect([aside, await cached()]).toEqual([["pods-3f2a-eth0"], []]);
  expect(linesOf(calls).slice(3)).toEqual(["DEL tuning", "DEL portmap", "DEL bridge"]);
  expect(prevOf(calls[3]!)).toBeUndefined();
});

test("CHECK calls the plugins with the result of ADD, until one fails", async () => {
  const { cni, calls } = createFixture({ "CHECK portmap": fail(100, "the rule is gone") });
  const conf = networkOf("0.4.0");
  await cni.add(conf, attachment, signal);
  await expect(cni.check(conf, attachment, signal)).rejects.toMatchObject({ code: 100, plugin: "portmap" });
  expect(linesOf(calls).slice(3)).toEqual(["CHECK bridge", "CHECK portmap"]);
  expect(prevOf(calls[3]!)).toMatchObject({ cniVersion: "0.4.0", ips: [{ address: "10.1.0.5/16" }] });
});

test("CHECK is not called where the network disables it, before 0.4.0, and of what was never added", async () => {
  const { cni, calls } = createFixture();
  expect(await cni.check(networkOf("1.0.0", { disableCheck: true }), attachment, signal)).toBe("disabled");
  await expect(cni.check(networkOf("0.3.1"), attachment, signal)).rejects.toMatchObject({
    code: 1,
    message: "the network pods has cniVersion 0.3.1, and CHECK exists from 0.4.0 on",
  });
  await expect(cni.check(networkOf("1.0.0"), attachment, signal)).rejects.toMatchObject({
    code: 3,
    message: "the cache has no result of ADD for 3f2a",
  });
  expect(calls).toEqual([]);
});

test("STATUS calls each plugin from 1.1.0 on, until one is not available", async () => {
  const { cni, calls } = createFixture({ "STATUS portmap": fail(50, "no daemon") });
  expect(await cni.status(networkOf("1.0.0"), signal)).toBe("unsupported");
  expect(calls).toEqual([]);
  await expect(cni.status(networkOf("1.1.0"), signal)).rejects.toMatchObject({ code: 50, plugin: "portmap" });
  expect(linesOf(calls)).toEqual(["STATUS bridge", "STATUS portmap"]);
  expect(calls[0]).toMatchObject({ containerId: "", netns: "", ifName: "" });
  expect(await createFixture().cni.status(networkOf("1.1.0"), signal)).toBe("ready");
});

test("GC deletes what is not valid any more, torn entries too, even if another reader has set them aside, and then calls GC of each plugin", async () => {
  const { cni, calls } = createFixture();
  const conf = networkOf("1.1.0");
  for (const containerId of ["kept", "stale"]) await cni.add(conf, { ...attachment, containerId }, signal);
  await cni.add(networkOf("1.1.0", { name: "other" }), { ...attachment, containerId: "other" }, signal);
  await writeFile(join(folder, "results", "pods-torn-eth0"), "{");
  await writeFile(join(folder, "results", "pods-aside-eth0.unreadable"), "{");
  calls.length = 0;
  const deleted = await cni.gc(conf, async (all) => all.filter(({ containerId }) => containerId === "kept"), signal);
  expect(deleted?.map(({ containerId }) => containerId)).toEqual(["stale", "torn", "aside"]);
  expect(calls.map(({ verb, containerId }) => `${verb} ${containerId}`)).toEqual([
    ...Array.from({ length: 3 }, () => "DEL stale"),
    ...Array.from({ length: 3 }, () => "DEL torn"),
    ...Array.from({ length: 3 }, () => "DEL aside"),
    ...Array.from({ length: 3 }, () => "GC "),
  ]);
  expect(calls[0]).toMatchObject({ netns: "/run/netns/blue", args: attachment.args });
  expect(calls[9]?.conf["cni.dev/valid-attachments"]).toEqual([{ containerID: "kept", ifname: "eth0" }]);
  expect(await cached()).toEqual(["other-other-eth0", "pods-kept-eth0"]);
});

test("a torn attachment that GC cannot delete stays for the next one", async () => {
  const { cni } = createFixture({ "DEL tuning": fail(100, "busy") });
  await cni.add(networkOf("1.1.0"), attachment, signal);
  await writeFile(join(folder, "results", "pods-3f2a-eth0"), "{");
  for (let time = 0; time < 2; time++)
    await expect(cni.gc(networkOf("1.1.0"), noneIsValid, signal)).rejects.toMatchObject({ code: 100 });
  const next = await createFixture().cni.gc(networkOf("1.1.0"), noneIsValid, signal);
  expect([next, await cached()]).toEqual([[key], []]);
});

test("GC goes on after a failure, and reports all failures", async () => {
  const { cni, calls } = createFixture({ "DEL tuning": fail(100, "busy"), "GC bridge": fail(5, "no lease file") });
  const conf = networkOf("1.1.0");
  await cni.add(conf, attachment, signal);
  calls.length = 0;
  await expect(cni.gc(conf, noneIsValid, signal)).rejects.toMatchObject({
    code: 100,
    message: "tuning: busy (code 100); bridge: no lease file (code 5)",
  });
  expect(linesOf(calls)).toEqual(["DEL tuning", "GC bridge", "GC portmap", "GC tuning"]);
});

test("GC calls no plugin where the network disables it, and only DEL before 1.1.0", async () => {
  const { cni, calls } = createFixture();
  const conf = networkOf("1.0.0");
  await cni.add(conf, attachment, signal);
  calls.length = 0;
  expect(await cni.gc(networkOf("1.1.0", { disableGC: true }), noneIsValid, signal)).toBeUndefined();
  expect(calls).toEqual([]);
  expect(await cni.gc(conf, noneIsValid, signal)).toEqual([expect.objectContaining(key)]);
  expect(linesOf(calls)).toEqual(["DEL tuning", "DEL portmap", "DEL bridge"]);
});

test("GC decides while no ADD runs, so that it sees what an ADD under way makes", async () => {
  const [adding, added] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { cni, calls } = createFixture({
    async "ADD bridge"(call) {
      adding.resolve();
      await added.promise;
      return bridgeResult(call);
    },
  });
  const conf = networkOf("1.1.0");
  const add = cni.add(conf, attachment, signal);
  await adding.promise;
  const seen: (readonly string[])[] = [];
  const collected = cni.gc(
    conf,
    async (all) => {
      seen.push(all.map(({ containerId }) => containerId));
      return all;
    },
    signal,
  );
  added.resolve();
  await add;
  expect([await collected, seen]).toEqual([[], [[attachment.containerId]]]);
  expect(linesOf(calls).slice(-3)).toEqual(["GC bridge", "GC portmap", "GC tuning"]);
});
