// The contract of cgroups on a kernel with cgroup v2 and systemd, and what no imitation of them shows: `bun test` runs it in
// the guest, as one bundled file.
import { cgroupsContract } from "../../contract/cgroups.ts";
import { kernelContract } from "./kernel-contract.ts";
import { createKernelFixture } from "./kernel-fixture.ts";

for (const driver of ["cgroupfs", "systemd"] as const) {
  cgroupsContract(`the kernel, with ${driver}`, async () => createKernelFixture(driver));
  kernelContract(driver);
}
