import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../../host/clock.ts";
import { StatusResponse, VersionResponse } from "../../proto/cri/gen/api.ts";
import { type CriServer, startCriServer, type UnaryResponder } from "../../test/fakes/cri-server.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { readRuntimeFacts } from "./runtime-facts.ts";

let folder: string;
let server: CriServer | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-runtime-"));
});
afterEach(async () => {
  await server?.kill();
  server = undefined;
  await rm(folder, { recursive: true });
});

const answer =
  (bytes: Uint8Array): UnaryResponder =>
  (_, reply) =>
    reply(null, Buffer.from(bytes));

async function serve(config: string | undefined): Promise<void> {
  const version = { version: "0.1.0", runtimeName: "containerd", runtimeVersion: "1.7.1", runtimeApiVersion: "v1" };
  const conditions = [{ type: "RuntimeReady", status: true }];
  const status = { status: { conditions }, info: config === undefined ? {} : { config } };
  server = await startCriServer(join(folder, "cri.sock"), {
    "/runtime.v1.RuntimeService/Version": answer(VersionResponse.encode(VersionResponse.fromPartial(version)).finish()),
    "/runtime.v1.RuntimeService/Status": answer(StatusResponse.encode(StatusResponse.fromPartial(status)).finish()),
  });
}

function read() {
  const endpoint = `unix://${folder}/cri.sock`;
  const options = { clock: createClock(), log: new FakeLog(), requestTimeoutMs: 5_000 };
  return readRuntimeFacts({ containerRuntimeEndpoint: endpoint, imageServiceEndpoint: endpoint }, options);
}

const runc = (options: object) => ({ runtimeType: "io.containerd.runc.v2", options });

test.each([
  ["a runc with SystemdCgroup", { runc: runc({ SystemdCgroup: true }) }, "systemd"],
  ["a runc whose options do not mention it", { runc: runc({ BinaryName: "runc" }) }, "cgroupfs"],
  ["another runtime", { runc: { runtimeType: "io.containerd.kata.v2", options: {} } }, undefined],
])("without RuntimeConfig the cgroup driver of %s is in containerd's verbose status", async (_, runtimes, driver) => {
  const registry = { configs: { "registry.test": { auth: { password: "secret" } } } };
  const cni = { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"], binDir: "" };
  await serve(JSON.stringify({ containerd: { defaultRuntimeName: "runc", runtimes }, cni, registry }));
  expect(await read()).toEqual({
    isReachable: true,
    facts: {
      name: "containerd",
      version: "1.7.1",
      conditions: [{ type: "RuntimeReady", status: true, reason: "", message: "" }],
      cgroupDriver: driver === undefined ? undefined : { name: driver as "systemd" | "cgroupfs", isReported: false },
      cni: { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"] },
      loopback: { by: "plugin", isOptional: false },
      imageFolder: undefined,
    },
  });
});

test.each([
  ["containerd before 2.0 needs the plugin loopback", {}, { by: "plugin", isOptional: false }],
  ["containerd 2 needs it by default", { useInternalLoopback: false }, { by: "plugin", isOptional: true }],
  ["containerd 2 with use_internal_loopback needs none", { useInternalLoopback: true }, { by: "runtime" }],
])("%s", async (_, fields, loopback) => {
  await serve(JSON.stringify({ cni: { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"], ...fields } }));
  expect(await read()).toMatchObject({ facts: { loopback } });
});

test.each([undefined, "", "no JSON", "[]", "null", '{"cni": {"confDir": 7}, "containerd": null}'])(
  "a runtime whose own information is %j leaves the driver and the folders unknown",
  async (config) => {
    await serve(config);
    const { facts } = { facts: undefined, ...(await read()) };
    expect(facts).toMatchObject({ name: "containerd", cgroupDriver: undefined, cni: undefined, loopback: undefined });
  },
);

test("a runtime that is not there is not reachable", async () => {
  expect(await read()).toMatchObject({ isReachable: false, code: "UNAVAILABLE" });
});

test("a server without CRI v1 is UNIMPLEMENTED", async () => {
  server = await startCriServer(join(folder, "cri.sock"), {});
  expect(await read()).toMatchObject({ isReachable: false, code: "UNIMPLEMENTED" });
});
