import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { onAbort } from "../async/abort.ts";
import { type Exec, ExecError } from "../exec.ts";
import { createNetworkMounts, MOUNT_TIMEOUT_MS, UNMOUNT_TIMEOUT_MS } from "./network-mounts.ts";

/* The contract of `NetworkMounts` is in test/contract/network-mounts.ts; this file tests how long programs may take. */

type Behaviour = "succeeds" | "hangs" | "cannot be killed" | ExecError;

/** A bed whose programs behave one after the other as listed. */
function createBed(...behaviours: readonly Behaviour[]) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const left = [...behaviours];
  const exec: Exec = {
    run(argv, { signal, env }) {
      lines.push(argv.join(" "));
      expect(env).toEqual({ PATH: "/bin" });
      const behaviour = left.shift() ?? "succeeds";
      if (behaviour === "succeeds") return Promise.resolve({ stdout: "", stderr: "" });
      if (behaviour instanceof ExecError) return Promise.reject(behaviour);
      return new Promise((_resolve, reject) => {
        if (behaviour === "hangs")
          onAbort(signal, () => reject(new ExecError(argv, undefined, "", `${argv[0]} was cancelled`)));
      });
    },
  };
  return { clock, lines, networkMounts: createNetworkMounts({ exec, path: "/bin", clock }) };
}

const noSignal = new AbortController().signal;
const mount = { source: "server:/data", target: "/v", fsType: "nfs", options: [] };
const timedOut = { name: "KillableProgramError", isTimeout: true };

test("mount(8) gets type, options, source and target, and no options where there are none", async () => {
  const { networkMounts, lines } = createBed();
  await networkMounts.mount(mount, noSignal);
  await networkMounts.mount({ ...mount, options: ["hard", "ro"] }, noSignal);
  expect(lines).toEqual(["mount -t nfs -- server:/data /v", "mount -t nfs -o hard,ro -- server:/data /v"]);
});

test("a mount that hangs is killed after two minutes, and may be tried again", async () => {
  const { networkMounts, clock } = createBed("hangs");
  const outcome = networkMounts.mount(mount, noSignal).catch((error: unknown) => error);
  await clock.advance(MOUNT_TIMEOUT_MS);
  expect(await outcome).toMatchObject(timedOut);
  await networkMounts.mount(mount, noSignal);
  expect(clock.pendingTimers).toBe(0);
});

test("a process that does not end in spite of SIGKILL is left alone, and nothing else is done at its target", async () => {
  const { networkMounts, clock, lines } = createBed("cannot be killed");
  const outcome = networkMounts.mount(mount, noSignal).catch((error: unknown) => error);
  await clock.advance(MOUNT_TIMEOUT_MS + 2_000);
  expect(await outcome).toMatchObject(timedOut);
  await expect(networkMounts.unmount("/v", noSignal)).rejects.toMatchObject({
    ...timedOut,
    status: "an earlier process has not ended, though it was killed",
  });
  await networkMounts.mount({ ...mount, target: "/other" }, noSignal);
  expect(lines).toHaveLength(2);
});

test("an unmount that hangs for a minute is repeated by force", async () => {
  const { networkMounts, clock, lines } = createBed("hangs");
  const outcome = networkMounts.unmount("/v", noSignal);
  await clock.advance(UNMOUNT_TIMEOUT_MS);
  await outcome;
  expect(lines).toEqual(["umount -- /v", "umount -f -- /v"]);
});

test("an unmount that cannot be killed is repeated by force, also at the next try, and then nothing is mounted there", async () => {
  const { networkMounts, clock, lines } = createBed("cannot be killed", "succeeds", "cannot be killed");
  const first = networkMounts.unmount("/v", noSignal);
  await clock.advance(UNMOUNT_TIMEOUT_MS + 2_000);
  await first;
  const second = networkMounts.unmount("/v", noSignal).catch((error: unknown) => error);
  await clock.advance(UNMOUNT_TIMEOUT_MS + 2_000);
  expect(await second).toMatchObject({ ...timedOut, status: "did not end within 60 s" });
  expect(lines).toEqual(["umount -- /v", "umount -f -- /v", "umount -f -- /v"]);
  const status = "an earlier process has not ended, though it was killed";
  await expect(networkMounts.unmount("/v", noSignal)).rejects.toMatchObject({ ...timedOut, status });
  await expect(networkMounts.mount(mount, noSignal)).rejects.toMatchObject({ ...timedOut, status });
  expect(lines).toHaveLength(3);
});

test("a missing program is reported as Go does", async () => {
  const missing = Object.assign(new Error("spawn mount ENOENT"), { code: "ENOENT" });
  const { networkMounts } = createBed(
    new ExecError(["mount"], undefined, "", "mount could not be run: ENOENT", missing),
  );
  await expect(networkMounts.mount(mount, noSignal)).rejects.toMatchObject({
    isTimeout: false,
    status: 'exec: "mount": executable file not found in $PATH',
  });
});
