import { afterEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { VersionRequest, VersionResponse } from "../../../proto/cri/gen/api.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { startCriServer } from "../../fakes/cri-server.ts";
import { connectRuntime } from "../measured-runtime.ts";
import { startRuntimeProxy } from "./runtime-proxy.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

test("calls and errors pass through, and the proxy notes each call with its messages and its times", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-proxy-"));
  ends.push(() => rm(folder, { recursive: true }));
  const version = VersionResponse.fromPartial({ runtimeName: "fake", runtimeApiVersion: "v1" });
  const server = await startCriServer(join(folder, "runtime.sock"), {
    "/runtime.v1.RuntimeService/Version": (_, answer) =>
      void setTimeout(() => answer(null, Buffer.from(VersionResponse.encode(version).finish())), 50),
    "/runtime.v1.RuntimeService/StartContainer": (_, answer) =>
      answer({ code: status.NOT_FOUND, details: "no such container" }),
  });
  ends.push(() => server.kill());
  const proxy = await startRuntimeProxy(`unix://${join(folder, "runtime.sock")}`, join(folder, "proxy.sock"));
  ends.push(() => proxy.close());
  const runtime = await connectRuntime(proxy.endpoint);
  ends.push(async () => runtime.close());

  expect((await runtime.version()).runtimeName).toBe("fake");
  const failure: unknown = await runtime.startContainer("c" as ContainerId).catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: "NOT_FOUND" });

  expect(proxy.calls.map(({ method }) => method)).toEqual(["Version", "StartContainer"]);
  const [first] = proxy.calls;
  expect(first!.until - first!.from).toBeGreaterThanOrEqual(49);
  expect(VersionResponse.decode(first!.response).runtimeName).toBe("fake");
  expect(VersionRequest.decode(first!.request)).toBeDefined();
});
