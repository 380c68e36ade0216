import { expect, test } from "bun:test";
import { okFinding, problemFinding, warningFinding } from "./finding.ts";
import { type DoctorReport, reportText } from "./report.ts";

const report: DoctorReport = {
  ok: false,
  machine: {
    board: "Raspberry Pi 4 Model B",
    system: "Debian GNU/Linux 12 (bookworm)",
    architecture: "arm64",
    kernel: "6.12.25",
    cpus: 4,
    memoryBytes: 4 * 2 ** 30,
    cgroupVersion: 2,
    cgroupControllers: ["cpu", "memory", "pids"],
    disks: [{ name: "mmcblk0", model: "", sizeBytes: 32 * 2 ** 30 }],
    temperatureCelsius: 48,
  },
  findings: [
    okFinding("user", "root"),
    problemFinding(
      "container-runtime",
      "/run/containerd/containerd.sock does not exist",
      "install containerd and start it",
    ),
    warningFinding("swap", "on (/dev/zram0)\u001b[31m", "swapoff -a"),
    warningFinding("memory", "unknown", "find out"),
  ],
};

test("the text shows the machine, then problems, warnings and the rest, and breaks lines at the terminal's width", () => {
  expect(`\n${reportText(report, 72)}`).toBe(`
board        Raspberry Pi 4 Model B
system       Debian GNU/Linux 12 (bookworm), arm64
kernel       6.12.25
cgroups      version 2: cpu memory pids
processors   4
memory       4.0 GiB
disks        mmcblk0 32 GiB
temperature  48 °C

PROBLEM  container runtime  /run/containerd/containerd.sock does not
                            exist
                            cure: install containerd and start it
warning  swap               on (/dev/zram0)\\u001b[31m
                            cure: swapoff -a
warning  memory             unknown
                            cure: find out
ok       user               root

1 problem, 2 warnings: the agent cannot run pods here yet. Cure the problems, then run berth doctor again.
`);
});

test("a machine of which nothing could be read is unknown, and without problems the text says so", () => {
  const text = reportText({ ok: true, machine: {}, findings: [okFinding("user", "root")] }, Number.POSITIVE_INFINITY);
  expect(`\n${text}`).toBe(`
board        unknown
system       unknown
kernel       unknown
cgroups      unknown
processors   unknown
memory       unknown
disks        unknown
temperature  unknown

ok       user  root

no problems, no warnings: nothing stands in the way of the agent.
`);
});
