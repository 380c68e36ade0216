import { joinWithAnd } from "../../proto/join-with-and.ts";
import { type Judge, judged, okFinding, problemFinding, warningFinding } from "./finding.ts";
import type { MachineFacts } from "./machine-facts.ts";
import type { RuntimeAnswer, RuntimeFacts } from "./runtime-facts.ts";

const RUNTIME = { check: "container-runtime", subject: "the container runtime", ifUnreadable: "problem" } as const;

/** Whether the runtime answers, in which version, and whether it is ready. */
export const judgeRuntime: Judge = (facts, { config: { containerRuntimeEndpoint: endpoint } }) =>
  judged(facts, "runtime", RUNTIME, (answer) => {
    if (isForbidden(answer))
      return [
        warningFinding(
          "container-runtime",
          `this user may not connect to ${endpoint}, so the runtime was not checked`,
          "run berth doctor as root",
        ),
      ];
    if (!answer.isReachable) return [problemFinding("container-runtime", ...whyUnreachable(answer, endpoint, facts))];
    const { name, version, conditions } = answer.facts;
    const ready = conditions.find(({ type }) => type === "RuntimeReady");
    if (ready?.status !== false) return [okFinding("container-runtime", `${name} ${version} answers on ${endpoint}`)];
    return [
      problemFinding(
        "container-runtime",
        `${name} ${version} answers on ${endpoint} and is not ready: ${wordsOf(ready)}`,
        `read its log (journalctl -u ${unitOf(name)}), and correct what it names`,
      ),
    ];
  });

/** The kernel refuses the connection: nothing is known of the runtime. */
export function isForbidden(answer: RuntimeAnswer): boolean {
  return !answer.isReachable && /\b(EACCES|EPERM)\b/.test(answer.message);
}

type Unreachable = Extract<RuntimeAnswer, { readonly isReachable: false }>;

function whyUnreachable(
  { code, message }: Unreachable,
  endpoint: string,
  { runtimeSocket, otherSockets }: MachineFacts,
): readonly [what: string, cure: string] {
  const isAbsent = "value" in runtimeSocket && runtimeSocket.value === undefined;
  if (isAbsent) {
    const others = "value" in otherSockets ? otherSockets.value : [];
    const what = `${endpoint} does not exist: no container runtime runs there`;
    if (others.length > 0)
      return [
        what,
        `there is a runtime at ${joinWithAnd(others)}: name it with --container-runtime-endpoint=unix://${others[0]} or containerRuntimeEndpoint`,
      ];
    return [
      what,
      "install containerd and start it (systemctl enable --now containerd), or name the socket of another runtime with --container-runtime-endpoint",
    ];
  }
  if ("value" in runtimeSocket && runtimeSocket.value !== "socket")
    return [
      `${endpoint} is a ${runtimeSocket.value} and not a socket`,
      "name the socket of the runtime with --container-runtime-endpoint",
    ];
  if (code === "UNIMPLEMENTED")
    return [
      `the program at ${endpoint} does not offer CRI v1 (${message})`,
      'with containerd: remove "cri" from disabled_plugins in /etc/containerd/config.toml, then systemctl restart containerd; containerd must be 1.6 or later',
    ];
  if (code === "DEADLINE_EXCEEDED")
    return [`the container runtime at ${endpoint} does not answer in time`, "systemctl restart containerd"];
  return [
    `the container runtime at ${endpoint} does not answer: ${message}`,
    "start it (systemctl enable --now containerd), and read its log (journalctl -u containerd)",
  ];
}

const unitOf = (runtime: string) => (runtime === "cri-o" ? "crio" : runtime);

export function wordsOf({ reason, message }: RuntimeFacts["conditions"][number]): string {
  return [reason, message].filter((word) => word !== "").join(": ");
}

/** The driver of a runtime that reports it replaces the configured one; else both must be the same. */
export const judgeCgroupDriver: Judge = (facts, { config, kubelet: { cgroupDriver: configured } }) => {
  const answer = "value" in facts.runtime ? facts.runtime.value : undefined;
  if (answer?.isReachable !== true) return [];
  const { cgroupDriver: driver, name } = answer.facts;
  const ok = (what: string) => [okFinding("cgroup-driver", what)];
  if (driver === undefined) return ok(`${name} does not say which it uses`);
  const uses = `${name} uses ${driver.name}`;
  if (!config.cgroupsPerQOS)
    return driver.name === "systemd" ? [withoutCgroups(uses)] : ok(`${uses}, and the agent makes no cgroups`);
  if (driver.name === configured) return ok(`${configured}, in ${name} and in the configuration`);
  if (driver.isReported)
    return ok(`${uses}, and so does the agent: it replaces cgroupDriver: ${configured} of the configuration`);
  const both = `${uses}, and cgroupDriver of the configuration is ${configured}`;
  return driver.name === "systemd"
    ? [problemFinding("cgroup-driver", `${both}: no pod can start`, "set cgroupDriver: systemd in the configuration")]
    : [
        warningFinding(
          "cgroup-driver",
          `${both}: containers run outside the cgroups of their pods, whose limits hold for none of them`,
          "set SystemdCgroup = true in the runtime's configuration and restart it; where systemd does not run, set cgroupDriver: cgroupfs",
        ),
      ];
};

const withoutCgroups = (uses: string) =>
  warningFinding(
    "cgroup-driver",
    `${uses}, which needs a slice for each pod, and cgroupsPerQOS is false: runc starts no container`,
    "set cgroupsPerQOS: true, or SystemdCgroup = false in the runtime's configuration and restart it",
  );
