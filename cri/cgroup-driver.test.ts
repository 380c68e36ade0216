import { expect, test } from "bun:test";
import { CgroupDriver, RuntimeConfigResponse, StatusResponse } from "../proto/cri/gen/api.ts";
import { readCgroupDriver } from "./cgroup-driver.ts";
import { CriError } from "./error.ts";

const answers = (cgroupDriver: CgroupDriver) => RuntimeConfigResponse.fromPartial({ linux: { cgroupDriver } });
const fails = (code: "UNIMPLEMENTED" | "UNAVAILABLE") => new CriError(code, "RuntimeConfig", "no");

/** A containerd whose default runtime is a runc with `SystemdCgroup = true`. */
async function read(runtimeConfig: RuntimeConfigResponse | CriError) {
  const runc = { runtimeType: "io.containerd.runc.v2", options: { SystemdCgroup: true } };
  const config = JSON.stringify({ containerd: { defaultRuntimeName: "runc", runtimes: { runc } } });
  return await readCgroupDriver({
    async runtimeConfig() {
      if (runtimeConfig instanceof CriError) throw runtimeConfig;
      return runtimeConfig;
    },
    verboseStatus: async () => StatusResponse.fromPartial({ info: { config } }),
  });
}

test("what RuntimeConfig reports goes before containerd's configuration", async () => {
  expect(await read(answers(CgroupDriver.CGROUPFS))).toEqual({ name: "cgroupfs", isReported: true });
});

test("without RuntimeConfig containerd's configuration shows the driver", async () => {
  expect(await read(fails("UNIMPLEMENTED"))).toEqual({ name: "systemd", isReported: false });
  expect(await read(RuntimeConfigResponse.fromPartial({}))).toEqual({ name: "systemd", isReported: false });
});

test("a runtime that does not answer has no driver", async () => {
  await expect(read(fails("UNAVAILABLE"))).rejects.toMatchObject({ code: "UNAVAILABLE" });
});
