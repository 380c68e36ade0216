import { expect, test } from "bun:test";
import type { CriRuntime } from "../../cri/client.ts";
import { StatusResponse, VersionResponse } from "../../proto/cri/gen/api.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import type { OwnedNetwork } from "./network-owner.ts";
import { runtimeReaders } from "./runtime-readers.ts";

test("the agent's network learns that the runtime is back before the status of that connection is judged", async () => {
  const calls: string[] = [];
  const network: Pick<OwnedNetwork, "withCondition" | "onRuntimeBack"> = {
    withCondition: (status) => async (options) => {
      const response = await status(options);
      calls.push("judged");
      return response;
    },
    onRuntimeBack: () => void calls.push("back"),
  };
  const runtime = {
    version: async () => VersionResponse.fromPartial({}),
    status: async () => StatusResponse.fromPartial({}),
  } as unknown as CriRuntime;
  const adapters = { files: {} as never, log: new FakeLog() };
  const readers = runtimeReaders(runtime, network as OwnedNetwork, adapters);
  // As the node reads them after an outage.
  await Promise.all([readers.runtime.status(), readers.runtime.version()]);
  expect(calls).toEqual(["back", "judged"]);
});
