// The bus of the system, where systemd's own socket does not exist: a real dbus-daemon between the client and a fake systemd.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSystemd } from "../../cgroups/systemd/systemd.ts";
import { systemdProperties } from "../../cgroups/systemd/unit-properties.ts";
import { createClock } from "../../host/clock.ts";
import { unpackPackages } from "../bed/packages.ts";
import { imitateCgroupV2 } from "../fakes/cgroup-v2.ts";
import { FakeSystemd, joinBusAsSystemd } from "../fakes/systemd.ts";

const DOWNLOAD_TIMEOUT_MS = 120_000;
let folder: string;
let socketPath: string;
let daemon: Bun.Subprocess<"ignore", "pipe", "inherit">;
let manager: FakeSystemd;
let leave: () => void;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-bus-"));
  socketPath = join(folder, "bus");
  const { root } = await unpackPackages("bookworm-dbus", console.warn);
  await writeFile(
    join(folder, "bus.conf"),
    `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=${socketPath}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>`,
  );
  const architecture = process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  const libraries = ["usr/lib", "lib"].map((each) => join(root, each, architecture)).join(":");
  const program = join(root, "usr/bin/dbus-daemon");
  daemon = Bun.spawn([program, `--config-file=${folder}/bus.conf`, "--nofork", "--print-address=1"], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
    env: { LD_LIBRARY_PATH: libraries },
  });
  // It prints its address when it listens.
  await daemon.stdout.getReader().read();
  manager = new FakeSystemd(folder, imitateCgroupV2(folder).files);
  leave = await joinBusAsSystemd(socketPath, manager);
}, DOWNLOAD_TIMEOUT_MS);

afterAll(async () => {
  leave?.();
  daemon?.kill();
  await daemon?.exited;
  await rm(folder, { recursive: true });
});

const client = () =>
  createSystemd({
    addresses: [{ socketPath, isBus: true }],
    uid: process.getuid?.() ?? 0,
    clock: createClock(),
    timeoutMs: 10_000,
    idleMs: 10,
  });

test("slices start, change and stop over a bus, and the ends of their jobs are received", async () => {
  const systemd = client();
  const properties = systemdProperties({ cpuWeight: 39, memoryMax: "max", cpus: "0-2,9" });
  expect(await systemd.startSlice("kubepods.slice", undefined, properties)).toBe(true);
  expect(await systemd.startSlice("kubepods-burstable.slice", "kubepods.slice", [])).toBe(true);
  expect(await systemd.startSlice("kubepods.slice", undefined, properties)).toBe(false);
  await systemd.setProperties("kubepods.slice", systemdProperties({ cpuWeight: 40 }));
  expect(manager.units.get("kubepods.slice")?.get("MemoryMax")).toBe(2n ** 64n - 1n);
  expect(manager.units.get("kubepods.slice")?.get("AllowedCPUs")).toEqual([0b111, 0b10]);
  for (let time = 0; time < 2; time++) await systemd.stop("kubepods.slice");
  expect([...manager.units.keys()]).toEqual([]);
});

test("an error of systemd arrives with its words, and one of the bus where systemd is not on it", async () => {
  manager.refused = { member: "SetUnitProperties", name: "org.freedesktop.DBus.Error.AccessDenied", text: "not you" };
  const refused = client().setProperties("a.slice", []);
  await expect(refused).rejects.toThrow("org.freedesktop.DBus.Error.AccessDenied: not you");
  leave();
  const away = client().setProperties("a.slice", []);
  await expect(away).rejects.toMatchObject({ code: "EDBUS", file: "a.slice" });
  await expect(away).rejects.toThrow("org.freedesktop.DBus.Error.ServiceUnknown");
});
