import { controllerCure, missingControllers } from "../../agent/preflight/cgroup-controllers.ts";
import { cgroupV1Remedies } from "../../agent/preflight/cgroup-version.ts";
import { isTuned, kernelTunables } from "../../agent/preflight/kernel-tunables.ts";
import { oldKernelWarnings } from "../../agent/preflight/kernel-version.ts";
import { findReservationProblem } from "../../agent/preflight/reservations.ts";
import { swapRemedy } from "../../agent/preflight/swap.ts";
import { joinWithAnd } from "../../proto/join-with-and.ts";
import { parseQuantity, QuantityError, toNumber } from "../../proto/kubernetes/values/quantity.ts";
import { sizeText } from "../../proto/size-text.ts";
import {
  type CheckedSettings,
  type Finding,
  type Judge,
  judged,
  okFinding,
  problemFinding,
  warningFinding,
} from "./finding.ts";
import type { MachineFacts } from "./machine-facts.ts";

const CGROUP_V2 = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line";

/** Decision 3: cgroup v1 only where the configuration allows it, as the agent itself judges at its start. */
export const judgeCgroups: Judge = (facts, { config }) =>
  judged(facts, "machine", { check: "cgroups", subject: "/sys/fs/cgroup" }, ({ hasCgroupV2, kernelVersion }) => [
    ...(hasCgroupV2 ? judgeConfiguredCgroups(facts) : judgeVersion1(config)),
    ...oldKernelWarnings({ hasCgroupV2, kernelVersion }, config.node).map((warning) =>
      warningFinding("cgroups", warning, "use Linux 5.9 or later"),
    ),
    ...judged(facts, "cgroupControllers", { check: "cgroups", subject: "the list of cgroup controllers" }, (found) =>
      judgeControllers(found, hasCgroupV2),
    ),
  ]);

function judgeVersion1(config: CheckedSettings["config"]): readonly Finding[] {
  const what = "/sys/fs/cgroup is not cgroup v2";
  const remedies = cgroupV1Remedies(config);
  if (remedies.length > 0)
    return [
      problemFinding(
        "cgroups",
        `${what}, which this configuration requires`,
        `${CGROUP_V2}, or set ${joinWithAnd(remedies)} in the configuration`,
      ),
    ];
  return [
    warningFinding("cgroups", `${what}: containers get their limits from the runtime, pods have no cgroup`, CGROUP_V2),
  ];
}

/** Raspberry Pi OS boots without the memory controller. Only the kernel's own list tells: raspberrypi/linux#6980. */
function judgeControllers(found: readonly string[], hasCgroupV2: boolean): readonly Finding[] {
  const missing = missingControllers(found);
  if (missing.length > 0)
    return [
      problemFinding(
        "cgroups",
        `the kernel has the cgroup ${missing.length === 1 ? "controller" : "controllers"} ${joinWithAnd(missing)} off: containers with such limits cannot start`,
        controllerCure(missing),
      ),
    ];
  if (!found.includes("cpuset"))
    return [
      warningFinding(
        "cgroups",
        "the kernel has the cgroup controller cpuset off",
        "use a kernel that is built with cpusets",
      ),
    ];
  return hasCgroupV2 ? [okFinding("cgroups", `version 2, with ${joinWithAnd(found)}`)] : [];
}

function judgeConfiguredCgroups(facts: MachineFacts): readonly Finding[] {
  const subject = { check: "cgroups", subject: "the configured cgroups" } as const;
  return judged(facts, "configuredCgroupProblems", subject, (problems) =>
    problems.map(({ what, cure }) => problemFinding("cgroups", `${what}: the agent does not start`, cure)),
  );
}

/** As the agent itself judges at its start. */
export const judgeReservations: Judge = (facts, { config }) =>
  judged(facts, "machine", { check: "reservations", subject: "the machine" }, (machine) =>
    judged(facts, "rootSpace", { check: "reservations", subject: "the root directory's file system" }, (space) =>
      judged(facts, "maxTasks", { check: "reservations", subject: "the limit of processes" }, (maxTasks) => {
        const storageBytes = space.totalBytes;
        const problem = findReservationProblem({ ...machine, storageBytes, maxTasks }, config.node);
        if (problem === undefined) return [okFinding("reservations", "the machine has what is reserved on it")];
        const cure = "correct systemReserved, kubeReserved, reservedSystemCPUs and evictionHard in the configuration";
        return [problemFinding("reservations", `the agent does not start: ${problem}`, cure)];
      }),
    ),
  );

export const judgeModules: Judge = (facts) => [
  ...judged(facts, "fileSystemTypes", { check: "kernel-modules", subject: "/proc/filesystems" }, (types) =>
    types.includes("overlay")
      ? [okFinding("kernel-modules", "overlay is loaded")]
      : [
          warningFinding(
            "kernel-modules",
            "overlay is not loaded: runtimes need it for the layers of images",
            load("overlay"),
          ),
        ],
  ),
  ...judged(facts, "sysctls", { check: "kernel-modules", subject: "/proc/sys" }, (sysctls) =>
    sysctls["net.bridge.bridge-nf-call-iptables"] !== undefined
      ? [okFinding("kernel-modules", "br_netfilter is loaded")]
      : [
          warningFinding(
            "kernel-modules",
            "br_netfilter is not loaded: with a network on a bridge, pods do not reach Services on their own node",
            load("br_netfilter"),
          ),
        ],
  ),
];

const load = (module: string) =>
  `modprobe ${module}, and for the next boot: echo ${module} >> /etc/modules-load.d/berth.conf`;

/** What networks of pods need: the consequence where it is off. */
const OF_NETWORK: Readonly<Record<string, string>> = {
  "net.ipv4.ip_forward": "pods do not reach other machines unless their network sets it",
  "net.bridge.bridge-nf-call-iptables": "with a network on a bridge, pods do not reach Services on their own node",
};

export const judgeSysctls: Judge = (facts, { config }) =>
  judged(facts, "sysctls", { check: "sysctls", subject: "/proc/sys" }, (found) => {
    const off = Object.entries(OF_NETWORK).filter(([name]) => found[name] === 0);
    return [
      judgeTunables(found, config),
      ...off.map(([name, consequence]) =>
        warningFinding("sysctls", `${name} is 0: ${consequence}`, setting([`${name}=1`])),
      ),
      ...(found["net.ipv4.conf.all.route_localnet"] === 1 ? [EXPOSED] : []),
    ];
  });

/** The agent sets what differs when it starts, unless its configuration says otherwise. */
function judgeTunables(
  found: Readonly<Record<string, number | undefined>>,
  { protectKernelDefaults, setsKernelTunables }: CheckedSettings["config"],
): Finding {
  const wrong = kernelTunables.filter((tunable) => {
    const current = found[tunable.name];
    if (current === undefined) return false;
    return protectKernelDefaults ? current !== tunable.value : !isTuned(tunable, current);
  });
  if (wrong.length === 0) return okFinding("sysctls", "the kernel's settings are those that Kubernetes expects");
  const differing = joinWithAnd(wrong.map(({ name, value }) => `${name}=${value} (it is ${found[name]})`));
  const cure = setting(wrong.map(({ name, value }) => `${name}=${value}`));
  if (protectKernelDefaults)
    return problemFinding(
      "sysctls",
      `protectKernelDefaults is true, and the kernel would need ${differing}: the agent does not start`,
      cure,
    );
  return setsKernelTunables
    ? okFinding("sysctls", `the agent sets ${differing} when it starts`)
    : warningFinding("sysctls", `Kubernetes expects ${differing}, and --set-kernel-tunables is false`, cure);
}

const setting = (assignments: readonly string[]) =>
  `sysctl -w ${assignments.join(" ")}, and for the next boot the same in /etc/sysctl.d/90-berth.conf, one per line`;

/** CVE-2020-8558. */
const EXPOSED = warningFinding(
  "sysctls",
  "net.ipv4.conf.all.route_localnet is 1: neighbours on the network can reach services that listen on 127.0.0.1 only",
  "sysctl -w net.ipv4.conf.all.route_localnet=0, unless something here needs it and drops such packets itself",
);

export const judgeMemory: Judge = (facts, { config }) =>
  judged(facts, "memory", { check: "memory", subject: "/proc/meminfo" }, (supply) => {
    if (supply === undefined)
      return [
        warningFinding(
          "memory",
          "the kernel does not say how much memory is available",
          "mount /proc, and use Linux 3.14 or later",
        ),
      ];
    const found = `${sizeText(supply.available)} of ${sizeText(supply.capacity)} available`;
    const limit = thresholdBytes(config.node.evictionHard["memory.available"], supply.capacity);
    if (supply.available >= limit) return [okFinding("memory", found)];
    return [
      problemFinding(
        "memory",
        `${found}, less than evictionHard allows (${sizeText(limit)}): the node reports MemoryPressure and gets no pods`,
        "end other programs, or lower memory.available of evictionHard in the configuration",
      ),
    ];
  });

/** `100Mi`, or a percentage of the capacity; 0 if unset, unreadable or disabled: for the agent, 0% and 100% disable it. */
export function thresholdBytes(text: string | undefined, capacity: number): number {
  if (text === undefined || text === "0%" || text === "100%") return 0;
  if (text.endsWith("%")) return (capacity * Number(text.slice(0, -1))) / 100 || 0;
  try {
    return toNumber(parseQuantity(text));
  } catch (error) {
    if (error instanceof QuantityError) return 0;
    throw error;
  }
}

export const judgeSwap: Judge = (facts, { kubelet, config }) =>
  judged(facts, "swapDevices", { check: "swap", subject: "/proc/swaps" }, (devices) => {
    if (devices.length === 0) return [okFinding("swap", "off")];
    const where = `on (${joinWithAnd(devices)})`;
    if (!kubelet.failSwapOn) {
      const behavior = config.swapBehavior === "" ? "NoSwap" : config.swapBehavior;
      return [okFinding("swap", `${where}, and failSwapOn is false; pods get it by swapBehavior ${behavior}`)];
    }
    return [
      problemFinding(
        "swap",
        `${where}, and failSwapOn is true: the agent does not start`,
        `${swapRemedy(devices)}, or set failSwapOn: false`,
      ),
    ];
  });

/** Kubernetes 1.36 was released later: no machine that runs it may have an earlier date. */
const EARLIEST_MS = Date.UTC(2026, 3, 1);

export const SYNC_TIME = "timedatectl set-ntp true, or install and start chrony";

export const judgeClock: Judge = (facts) =>
  judged(facts, "nowMs", { check: "clock", subject: "the clock" }, (nowMs) => {
    const time = new Date(nowMs).toISOString().slice(0, 19).replace("T", " ");
    if (nowMs < EARLIEST_MS)
      return [
        problemFinding(
          "clock",
          `the clock shows ${time} UTC, which is in the past: certificates are not valid yet`,
          SYNC_TIME,
        ),
      ];
    return judged(facts, "isClockSynchronized", { check: "clock", subject: "the kernel's time state" }, (isInSync) =>
      isInSync === false
        ? [
            warningFinding(
              "clock",
              `${time} UTC; no time service keeps it right: certificates and leases fail when it drifts`,
              SYNC_TIME,
            ),
          ]
        : [okFinding("clock", `${time} UTC${isInSync === true ? ", synchronized by a time service" : ""}`)],
    );
  });

/** A Raspberry Pi slows down from here on. */
const HOT_CELSIUS = 80;

export const judgeTemperature: Judge = (facts) =>
  judged(facts, "inventory", { check: "temperature", subject: "the machine's sensors and disks" }, (inventory) => {
    const { temperatureCelsius: degrees } = inventory;
    if (degrees === undefined) return [okFinding("temperature", "this machine shows no sensor")];
    if (degrees < HOT_CELSIUS) return [okFinding("temperature", `${degrees} °C`)];
    return [warningFinding("temperature", `${degrees} °C: the processor slows itself down`, "cool the machine")];
  });
